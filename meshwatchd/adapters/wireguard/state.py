"""What a WireGuard device is told, and what it reports; the same for kernel and userspace devices."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerState:
    """What a device says about one peer.

    Attributes:
        endpoint: "address:port" where packets go, None before the peer is known to be anywhere.
        last_handshake_ns: wall clock (UNIX time in nanoseconds) of the last handshake, 0 for never.
    """

    public_key: str
    endpoint: str | None
    allowed_ips: tuple[str, ...]
    keepalive_s: int
    last_handshake_ns: int
    rx_bytes: int
    tx_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkState:
    """What a device says about itself; keys are base64, empty before one is set."""

    private_key: str = field(repr=False)
    public_key: str
    listen_port: int
    peers: tuple[PeerState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkConfig:
    """What a device with one peer should be.

    Attributes:
        endpoint: IP address and port, None when the peer is the one who initiates.
        allowed_ips: IPv4 prefixes with host bits zero.
        mtu_bytes: of the device; WireGuard itself does not know it.
    """

    private_key: str = field(repr=False)
    listen_port: int
    peer_public_key: str
    endpoint: tuple[str, int] | None
    allowed_ips: tuple[str, ...]
    keepalive_s: int
    mtu_bytes: int

    def is_in_effect(self, state: LinkState) -> bool:
        """Whether a device has this configuration.

        The endpoint is left out: a peer roams, and the address it was last heard from beats the configured one.
        """
        if (state.private_key, state.listen_port) != (self.private_key, self.listen_port):
            return False
        if [peer.public_key for peer in state.peers] != [self.peer_public_key]:
            return False
        peer = state.peers[0]
        return (set(peer.allowed_ips), peer.keepalive_s) == (set(self.allowed_ips), self.keepalive_s)

    def strangers(self, state: LinkState) -> tuple[str, ...]:
        """Public keys of the device's peers that should not be there."""
        return tuple(peer.public_key for peer in state.peers if peer.public_key != self.peer_public_key)


def render_endpoint(address: str, port: int) -> str:
    """An address and a port as configurations and people write them; IPv6 in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
