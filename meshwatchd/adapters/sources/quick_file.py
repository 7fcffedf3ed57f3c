"""wg-quick's files, /etc/wireguard/*.conf: what they say of a device and its peers, without the private key."""

from __future__ import annotations

import base64
import binascii
import io
import re
from pathlib import Path
from typing import Any, Final

from wgconfig import WGConfig

from meshwatchd.adapters.sources import check
from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import QuickFile, QuickPeer

DIRECTORY: Final = Path("/etc/wireguard")
SUFFIX: Final = ".conf"
MAX_FILES: Final = 16
MAX_PEERS: Final = 1000

MAX_MTU, MAX_KEEPALIVE_S = 65_535, 65_535
KEY_BYTES: Final = 32

_DEVICE: Final = re.compile(r"[a-zA-Z0-9_=+.-]{1,15}")
"""As wg-quick has it."""


def parse(data: bytes, path: Path) -> QuickFile:
    """Turn a file into a QuickFile.

    Raises:
        DecodeError: it is not in the format, or a value is not what its name says.
    Source: wg(8) and wg-quick(8).
    """
    source = str(path)
    device = path.name.removesuffix(SUFFIX)
    if _DEVICE.fullmatch(device) is None:
        raise DecodeError(source, f"{check.shown(device)} cannot be a device's name")
    interface, peers = _sections(check.text_of(data, source), source)
    if len(peers) > MAX_PEERS:
        raise DecodeError(source, f"there are more than {MAX_PEERS} peers")
    return QuickFile(
        path=source,
        device=device,
        addresses=tuple(str(check.interface(each, source, "Address")) for each in _texts(interface, "Address")),
        listen_port=_number(interface, "ListenPort", source, most=check.MAX_PORT),
        mtu_bytes=_number(interface, "MTU", source, most=MAX_MTU),
        has_routes=_texts(interface, "Table")[:1] != ("off",),
        peers=tuple(_peer(key, section, source) for key, section in peers.items()),
    )


def _sections(text: str, source: str) -> tuple[dict[str, Any], dict[Any, dict[str, Any]]]:
    """The interface's attributes, and each peer's by its key."""
    file = WGConfig()
    with Door(source):
        file.read_from_fileobj(io.StringIO(text))
        interface, peers = file.get_interface(), file.get_peers(keys_only=False)
    if not interface:
        raise DecodeError(source, "there is no section [Interface]")
    return interface, peers


def _peer(key: object, section: dict[str, Any], source: str) -> QuickPeer:
    if not isinstance(key, str) or not _is_key(key):
        raise DecodeError(source, f"PublicKey: {check.shown(str(key))} is no key")
    allowed = [str(check.interface(each, source, "AllowedIPs").network) for each in _texts(section, "AllowedIPs")]
    endpoint = "".join(_texts(section, "Endpoint"))
    keepalive = _texts(section, "PersistentKeepalive")
    return QuickPeer(
        public_key=key,
        endpoint=check.endpoint(endpoint, source, "Endpoint") if endpoint else "",
        allowed_ips=tuple(allowed),
        keepalive_s=0
        if keepalive == ("off",)
        else _number(section, "PersistentKeepalive", source, most=MAX_KEEPALIVE_S),
    )


def _is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _texts(section: dict[str, Any], name: str) -> tuple[str, ...]:
    """All values of an attribute, whatever the case of its name; wgconfig has one as itself, several as a list."""
    found = [value for key, value in section.items() if key.lower() == name.lower()]
    values = [each for value in found for each in (value if isinstance(value, list) else [value])]
    return tuple(str(value) for value in values if value != "")


def _number(section: dict[str, Any], name: str, source: str, *, most: int) -> int:
    values = _texts(section, name)
    return check.number(values[-1], source, name, most=most) if values else 0
