r"""Kilo's graph: GET http://127.0.0.1:1107/graph?format=dot.

    digraph kilo {
        label="10.4.0.0/16";
        "b1"->"a1"[ dir=both ];
        subgraph "cluster_location_location:cloud" {
            label="location:cloud";
            "b1" [ label="location:cloud\nb1\n10.244.4.0/24\n10.2.0.11\n10.4.0.1\n198.51.100.21:51820", rank=1 ];
            "b2" [ label="location:cloud\nb2\n10.244.5.0/24\n10.2.0.12" ];
        }
    }

A node's label has its location, name and pod CIDR; its internal address if it has one; and if it leads, its WireGuard
address and its endpoint. The locations of a mesh with full granularity are "node:NAME". Kilo escapes nothing, so
a location with a quote in it makes a graph that nobody can read.

Source: Dot() and nodeLabel() in pkg/mesh/graph.go of Kilo 0.7.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from meshwatchd.adapters.sources import check
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import KiloGraph, KiloNode

SOURCE: Final = "kilo graph"
TARGET: Final = "/graph?format=dot"

MAX_NODES: Final = 5000
MAX_LOCATION_CHARACTERS: Final = 253

_LOCATION_PREFIX, _NODE_PREFIX, _PEERS = "location:", "node:", "cluster_peers"
_TOKEN: Final = re.compile(r'\s+|"((?:[^"\\]|\\.)*)"|(->)|([A-Za-z0-9_.:+-]+)|([{}\[\];=,])')


class _Token(NamedTuple):
    """A word or a symbol; `is_word` for names and quoted text."""

    text: str
    is_word: bool
    offset: int


def parse(data: bytes) -> KiloGraph:
    """Turn the answer into a graph.

    Raises:
        DecodeError: it is no graph, or one that Kilo does not make.
    """
    return _Reader(check.text_of(data, SOURCE)).graph()


def _tokens(text: str) -> Iterator[_Token]:
    offset = 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise DecodeError(
                SOURCE, f"character {offset} is no part of a graph: {check.shown(text[offset : offset + 20])}"
            )
        quoted, arrow, word, symbol = match.groups()
        if quoted is not None or word is not None:
            yield _Token(quoted if quoted is not None else word, is_word=True, offset=offset)
        elif arrow or symbol:
            yield _Token(arrow or symbol, is_word=False, offset=offset)
        offset = match.end()


class _Reader:
    """Reads the statements of a graph and its subgraphs, which have no subgraphs themselves."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next: _Token | None = next(self._tokens, None)
        self._nodes: dict[str, KiloNode] = {}

    def graph(self) -> KiloGraph:
        """All of it."""
        self._expect("digraph")
        self._word("the graph's name")
        label = self._body(subgraph=None)
        if self._next is not None:
            raise self._unexpected("the end")
        return KiloGraph(
            wireguard_cidr=check.ipv4_prefix(label, SOURCE, "the graph's label"),
            nodes=tuple(self._nodes[name] for name in sorted(self._nodes)),
        )

    def _body(self, *, subgraph: str | None) -> str:
        """Statements between braces; returns the label among them."""
        label = ""
        self._expect("{")
        while not self._accept("}"):
            first = self._word("a statement")
            if first == "subgraph" and subgraph is None:
                self._body(subgraph=self._word("a subgraph's name"))
            elif self._accept("="):
                value = self._word(f"the value of {check.shown(first)}")
                label = value if first == "label" else label
            elif self._accept("->"):
                self._word("the other end of an edge")
                self._attributes()
            else:
                self._take_node(first, subgraph)
            self._accept(";")
        return label

    def _attributes(self) -> dict[str, str]:
        found: dict[str, str] = {}
        if not self._accept("["):
            return found
        while not self._accept("]"):
            key = self._word("an attribute")
            self._expect("=")
            found[key] = self._word(f"the value of {check.shown(key)}")
            if not self._accept(","):
                self._accept(";")
        return found

    def _take_node(self, name: str, subgraph: str | None) -> None:
        attributes = self._attributes()
        if subgraph is None or subgraph == _PEERS:
            return  # dial-in peers are no nodes
        node = _node(name, attributes)
        if node.name in self._nodes:
            raise DecodeError(SOURCE, f"there are two nodes {node.name}")
        if len(self._nodes) == MAX_NODES:
            raise DecodeError(SOURCE, f"there are more than {MAX_NODES} nodes")
        self._nodes[node.name] = node

    # --- tokens ---

    def _advance(self) -> _Token:
        token = self._next
        if token is None:
            raise DecodeError(SOURCE, "it ends too early")
        self._next = next(self._tokens, None)
        return token

    def _word(self, what: str) -> str:
        if self._next is not None and not self._next.is_word:
            raise self._unexpected(what)
        return self._advance().text

    def _accept(self, symbol: str) -> bool:
        if self._next is None or self._next.is_word or self._next.text != symbol:
            return False
        self._advance()
        return True

    def _expect(self, text: str) -> None:
        if self._next is not None and self._next.text != text:
            raise self._unexpected(text)
        self._advance()

    def _unexpected(self, wanted: str) -> DecodeError:
        assert self._next is not None
        return DecodeError(SOURCE, f"character {self._next.offset} is {check.shown(self._next.text)}, not {wanted}")


def _node(name: str, attributes: dict[str, str]) -> KiloNode:
    """One node by its label."""
    place = f"node {check.shown(name)}"
    location, *rest = attributes.get("label", "").split("\\n")
    if len(rest) < 2 or rest[0] != name:
        raise DecodeError(SOURCE, f"{place}: its label is {check.shown(attributes.get('label', ''))}")
    pod_cidr = check.ipv4_prefix(rest[1], SOURCE, place)
    is_leader = attributes.get("rank") == "1"
    addresses = list(rest[2:])
    endpoint = check.endpoint(addresses.pop(), SOURCE, place) if is_leader and _has_endpoint(addresses) else ""
    wireguard_ip = check.ipv4(addresses.pop(), SOURCE, place) if is_leader and addresses else ""
    node_ip = check.ipv4(addresses.pop(), SOURCE, place) if addresses else ""
    if addresses or (is_leader and not wireguard_ip):
        raise DecodeError(SOURCE, f"{place}: its label has {len(rest) + 1} parts")
    return KiloNode(
        name=check.name(name, SOURCE, place),
        location=_location(location, place),
        pod_cidr=pod_cidr,
        node_ip=node_ip,
        is_leader=is_leader,
        wireguard_ip=wireguard_ip,
        endpoint=endpoint,
    )


def _has_endpoint(parts: list[str]) -> bool:
    return bool(parts) and ":" in parts[-1]


def _location(label: str, place: str) -> str:
    """A location's name; that of a lonely node is the node's."""
    is_segment = label.startswith(_LOCATION_PREFIX)
    name = label.removeprefix(_LOCATION_PREFIX if is_segment else _NODE_PREFIX)
    if not name.isprintable() or len(name) > MAX_LOCATION_CHARACTERS:
        raise DecodeError(SOURCE, f"{place}: {check.shown(label)} is no location")
    return name
