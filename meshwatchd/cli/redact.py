"""Takes out of a text what others must not see: secrets always, identities where that is asked for."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator

import msgspec

from meshwatchd.model.settings import Settings

_SECRET = re.compile(
    rb"(?im)((?:^|[\s{,;])\"?[\w.-]*(?:private|preshared|psk|secret|password|token)[\w.-]*\"?\s*[=:]\s*)"
    rb"(\"?)[^\s\",}]+(\"?)"
)
"""A line or field that is named like a secret; paths of key files are named `key_file` and stay."""
_PEM = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?-----END [A-Z0-9 ]*PRIVATE KEY-----", re.DOTALL)
_WORD = re.compile(rb"[0-9A-Za-z_.:+/=-]+")
_KEY = re.compile(rb"(?<![0-9A-Za-z+/=])[0-9A-Za-z+/]{43}=(?![0-9A-Za-z+/=])")
_IP4 = re.compile(rb"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\w\.)")
_IP6 = re.compile(rb"(?<![\w:.])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{0,4}(?![\w:])")
_MAC = re.compile(rb"(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])")

_NAMES = {"node": "node", "peer": "node", "culprit": "node", "told_by": "node", "leader": "node", "observer": "node"}
_NAMES |= {"location": "location", "remote_location": "location", "canary": "canary"}
_LISTS = {"relays": "node", "drained": "node", "unheard": "node", "accepted": "node"}
_KEPT = frozenset({"", "none", "unknown", "mesh", "all", "nothing"})


class Redactor:
    """Cleans the files of one bundle; `learn` all of them before any is cleaned.

    Args:
        is_anonymous: give addresses, MACs, public keys and names of nodes and locations other names. The same thing has
            the same name everywhere; prefixes that addresses have in common are lost.
    """

    def __init__(self, *, is_anonymous: bool) -> None:
        self._is_anonymous = is_anonymous
        self._names: dict[bytes, bytes] = {}
        self._counts: dict[str, int] = {}

    def learn(self, data: bytes) -> None:
        """Note which names are of nodes and locations; only structured data says so."""
        if not self._is_anonymous:
            return
        for value in _documents(data):
            self._learn(value, "")

    def learn_settings(self, settings: Settings) -> None:
        """Note the names that a configuration has: of this machine, of a mesh that is declared, and of hosts."""
        if not self._is_anonymous:
            return
        for name, kind in _names_of(settings):
            if name not in _KEPT and not _is_address(name):
                self._name(name.rstrip(".").encode(), kind)

    def clean(self, data: bytes) -> bytes:
        """The text without secrets, and where that is wanted without identities."""
        data = _PEM.sub(b"[removed]", data)
        data = _SECRET.sub(rb"\1\2[removed]\3", data)
        if not self._is_anonymous:
            return data
        data = _KEY.sub(lambda found: self._name(found[0], "key"), data)
        data = _MAC.sub(lambda found: self._name(found[0].lower(), "mac"), data)
        for pattern in (_IP4, _IP6):
            data = pattern.sub(self._address, data)
        return _WORD.sub(self._word, data)

    def _learn(self, value: object, field: str) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                self._learn(each, str(key))
        elif isinstance(value, list):
            for each in value:
                self._learn(each, field)
        elif isinstance(value, str) and (kind := _NAMES.get(field) or _LISTS.get(field)) and value not in _KEPT:
            self._name(value.encode(), kind)

    def _word(self, found: re.Match[bytes]) -> bytes:
        """A name that stands alone, or joined to others as relays of a path are, or before a colon or full stop.

        Names may have hyphens and full stops themselves: the longest one counts.
        """
        pieces, start, cleaned = re.split(rb"([-.:/=]+)", found[0]), 0, []
        while start < len(pieces):
            ends = (end for end in range(len(pieces), start, -1) if b"".join(pieces[start:end]) in self._names)
            end = next(ends, 0)
            cleaned.append(self._names[b"".join(pieces[start:end])] if end else pieces[start])
            start = end or start + 1
        return b"".join(cleaned)

    def _address(self, found: re.Match[bytes]) -> bytes:
        text = found[0].decode()
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return found[0]
        if address.is_loopback or address.is_unspecified:
            return found[0]
        return self._name(str(address).encode(), "address")

    def _name(self, value: bytes, kind: str) -> bytes:
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[value] = f"{kind}{self._counts[kind]}".encode()
        return self._names[value]


def _names_of(settings: Settings) -> Iterator[tuple[str, str]]:
    """Each name of a configuration with its kind; empty ones are among them."""
    yield settings.daemon.node, "node"
    yield settings.discovery.location, "location"
    yield from ((name, "node") for name in (os.uname().nodename, *settings.discovery.forbid))
    for location in settings.mesh.location:
        yield location.name, "location"
        yield from ((name, "node") for name in location.relays())
    for node in settings.mesh.node:
        yield from ((node.name, "node"), (node.location, "location"), (node.standby_endpoint or "", "host"))
    yield settings.discovery.endpoint, "host"
    for canary in settings.probe.canary:
        yield from ((canary.name, "canary"), (canary.node, "node"))
        yield from ((name, "host") for name in (canary.lookup, canary.sni))


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _documents(data: bytes) -> Iterator[object]:
    """The JSON documents of a file: one, or one a line; nothing of other files."""
    for piece in (data, *data.splitlines()) if data[:1] in (b"{", b"[") else ():
        try:
            yield msgspec.json.decode(piece)
        except msgspec.DecodeError:
            continue
