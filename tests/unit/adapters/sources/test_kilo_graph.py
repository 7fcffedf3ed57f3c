"""Kilo's graph, as its agents draw it and as nobody should."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.kilo_graph import MAX_NODES, parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import KiloGraph, KiloNode
from tests.support import node_states

HEAD = """digraph kilo {
	label="10.4.0.0/16";
	labelloc=t;
	outputorder=nodesfirst;
	overlap=false;
"""
PEERS = """	subgraph "cluster_peers" {
	label="peers";
	style="dashed,rounded";
	"laptop" [ label="laptop\\n198.51.100.99:51820
", shape=ellipse ];
}
;
}
"""


def draw(graph: KiloGraph, *, prefix="location:") -> str:
    """A graph as Kilo 0.7.0 draws it: edges first, then a subgraph for each location."""
    leaders = [node.name for node in graph.nodes if node.is_leader]
    lines = [f'\t"{one}"->"{other}"[ dir=both ];' for one in leaders for other in leaders if one < other]
    for location in sorted({node.location for node in graph.nodes}):
        lines += [f'\tsubgraph "cluster_location_{prefix}{location}" {{', f'\tlabel="{prefix}{location}";']
        lines.append('\tstyle="dashed,rounded";')
        lines += [_draw_node(node, prefix) for node in graph.nodes if node.location == location]
        lines += ["}", ";"]
    return HEAD + "\n".join(lines) + "\n" + PEERS


def _draw_node(node: KiloNode, prefix: str) -> str:
    parts = [f"{prefix}{node.location}", node.name, node.pod_cidr, node.node_ip, node.wireguard_ip, node.endpoint]
    label = "\\n".join(filter(None, parts))
    rank = "rank=1, " if node.is_leader else ""
    return f'\t"{node.name}" [ label="{label}", {rank}shape=ellipse ];'


WHOLE = draw(node_states.graph())


def refusal(text):
    """Why a graph is refused."""
    with pytest.raises(DecodeError) as refused:
        parse(text.encode())
    assert "kilo graph" == refused.value.source
    return refused.value.reason


def test_a_graph_of_a_real_agent_is_read_whole():
    """Six nodes, two leaders; dial-in peers are no nodes."""
    assert node_states.graph() == parse(WHOLE.encode())


def test_nodes_of_full_granularity_are_their_own_locations():
    """Their segments are "node:NAME"."""
    nodes = tuple(
        KiloNode(
            name=name,
            location=name,
            pod_cidr="10.244.1.0/24",
            node_ip="10.2.0.1",
            is_leader=True,
            wireguard_ip="10.4.0.1",
            endpoint="gw.example.net:51820",
        )
        for name in ("a1", "a2")
    )
    graph = KiloGraph(wireguard_cidr="10.4.0.0/16", nodes=nodes)

    assert graph == parse(draw(graph, prefix="node:").encode())


def test_a_node_may_lack_an_internal_address_and_a_leader_an_endpoint():
    """A lonely node has none; an endpoint that is not known yet is left out."""
    lonely = KiloNode(name="c1", location="c1", pod_cidr="10.244.9.0/24", is_leader=True, wireguard_ip="10.4.0.3")
    graph = KiloGraph(wireguard_cidr="10.4.0.0/16", nodes=(lonely,))

    assert graph == parse(draw(graph, prefix="node:").encode())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("digraph", "graph", "is 'graph', not digraph"),
        ("10.4.0.0/16", "mesh", "the graph's label: 'mesh' is no IPv4 prefix"),
        ("10.244.4.0/24", "10.244.4.0/99", "node 'b1': '10.244.4.0/99' is no IPv4 prefix"),
        ("10.2.0.12", "10.2.0.1200", "node 'b2': '10.2.0.1200' is no IPv4 address"),
        ("198.51.100.21:51820", "198.51.100.21:99999", "is no host and port"),
        ("\\nb3\\n", "\\nb4\\n", "node 'b3': its label is"),
        ('"b3"', '"b2"', "its label is"),
        ("\\n10.2.0.13", "\\n10.2.0.13\\n10.2.0.14", "its label has 5 parts"),
        ("location:cloud\\nb3", "location:\\tcloud\\nb3", "is no location"),
        (", rank=1", "", "'198.51.100.21:51820' is no IPv4 address"),
        ("labelloc=t", "labelloc=$", "is no part of a graph"),
    ],
)
def test_what_kilo_does_not_draw_is_refused(old, new, reason):
    """With the place, and as a whole: half a graph is not a mesh."""
    assert old in WHOLE
    assert reason in refusal(WHOLE.replace(old, new.replace("\\t", "\x07") if "location" in old else new))


@pytest.mark.parametrize("end", [1, 40, len(WHOLE) // 2, len(WHOLE) - 3])
def test_a_graph_cut_short_is_refused(end):
    """A connection that ends early must not make half of the nodes vanish."""
    refusal(WHOLE[:end])


def test_two_nodes_of_one_name_are_refused():
    """Names are all that identifies them."""
    line = next(line for line in WHOLE.splitlines() if line.startswith('\t"b3" ['))

    assert "there are two nodes b3" == refusal(WHOLE.replace(line, f"{line}\n{line}"))


def test_a_subgraph_has_no_subgraphs():
    """Nesting would be a way to make the reader recurse."""
    assert "node 'subgraph': its label is ''" == refusal("digraph k { subgraph a { subgraph b { } } }")


def test_a_graph_of_too_many_nodes_is_refused():
    """Whatever made it, it is no mesh of this kind."""
    nodes = "".join(
        f'"n{number}" [ label="location:x\\nn{number}\\n10.0.0.0/24" ];\n' for number in range(MAX_NODES + 1)
    )

    assert f"there are more than {MAX_NODES} nodes" == refusal(f"{HEAD}subgraph s {{ {nodes} }} }}")


PIECES = re.findall(r'"[^"]*"|\w+|\S', WHOLE)


@given(st.text(max_size=80) | st.lists(st.sampled_from(PIECES), max_size=60).map(" ".join))
def test_no_text_makes_it_fail_otherwise(text):
    """A graph, or a reason."""
    with contextlib.suppress(DecodeError):
        parse(text.encode(errors="surrogatepass"))


@given(st.integers(0, len(WHOLE) - 1), st.characters(codec="utf-8"))
def test_one_wrong_character_gives_a_reason_or_another_graph(place, character):
    """Never anything else, and never a node more."""
    with contextlib.suppress(DecodeError):
        assert len(parse((WHOLE[:place] + character + WHOLE[place + 1 :]).encode()).nodes) <= 6
