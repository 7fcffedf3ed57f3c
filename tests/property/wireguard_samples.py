"""A WireGuard device as the kernel lists it by netlink, and as wireguard-go does in its text protocol."""

from __future__ import annotations

from meshwatchd.adapters.netlink.message import encode_attribute

KEY = bytes(range(32)).hex()
_ATTRIBUTE = encode_attribute

PEER = b"".join(
    _ATTRIBUTE(kind, value)
    for kind, value in (
        (1, bytes(range(32))),
        (4, b"\2\0\xca\x6c\xcb\0\x71\x0b" + bytes(8)),
        (5, b"\x0a\0"),
        (6, bytes(8) + b"\5" + bytes(7)),
        (7, b"\7" + bytes(7)),
        (8, b"\7" + bytes(7)),
        (
            9,
            _ATTRIBUTE(0, _ATTRIBUTE(1, b"\2\0") + _ATTRIBUTE(2, bytes(4)) + _ATTRIBUTE(3, b"\x18")),
        ),
    )
)
WIREGUARD = b"\0\1\0\0" + _ATTRIBUTE(3, bytes(range(32))) + _ATTRIBUTE(6, b"\6\0") + _ATTRIBUTE(8, _ATTRIBUTE(0, PEER))
UAPI = (
    f"private_key={KEY}\nlisten_port=51830\npublic_key={KEY}\nendpoint=203.0.113.11:51830\nallowed_ip=10.2.0.0/16\n"
    "last_handshake_time_sec=1700000000\nlast_handshake_time_nsec=5\nrx_bytes=92\ntx_bytes=148\nerrno=0\n\n"
).encode()
