"""The links that are broken under measurement, and the standby beside them.

    a  --- test0 (veth | VXLAN over under0 | WireGuard over under0) --- b
       --- stby0 (veth) ------------------------------------------------

Probes and BFD run between the addresses of test0. Traffic goes to an address on b's loopback, over test0 until
somebody routes it over stby0. A fault drops everything that enters or leaves a's end of the lowest device of the
link under test, in one nftables transaction, so that both directions die at the same instant and nobody is told.

There may be several links under test side by side, one a *lane*: a detector that trusts a link only after a minute
without faults is tried with one fault for each lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from netnslab import wireguard
from netnslab.bench.world import World
from netnslab.build import load_nft
from netnslab.waiting import wait_until

STANDBY = "stby0"
STANDBY_LOCAL, STANDBY_REMOTE = "10.20.0.1", "10.20.0.2"
SERVICE_LOCAL, SERVICE_REMOTE = "10.99.0.1", "10.99.0.2"
"""Where traffic comes from and goes to; on the loopback devices."""
PREFIX_BITS = 16
"""Of a link under test: room for thousands of addresses on one device."""
HOOKS = ("ingress", "egress")

_VXLAN_PORT = 8472
_WIREGUARD_PORT = 51820
_CONNECT_TIMEOUT_S = 15.0


class LinkKind(StrEnum):
    """What the link under test is made of."""

    VETH = "veth"
    VXLAN = "vxlan"
    WIREGUARD = "wireguard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One link under test, with names and addresses that follow from its number."""

    kind: LinkKind
    index: int = 0

    @property
    def device(self) -> str:
        """The link itself."""
        return f"test{self.index}"

    @property
    def lowest(self) -> str:
        """The device whose packets a fault drops."""
        return self.device if self.kind is LinkKind.VETH else self.under

    @property
    def under(self) -> str:
        """The device that carries a tunnel."""
        return f"under{self.index}"

    @property
    def local(self) -> str:
        """The near address."""
        return f"10.{100 + self.index}.0.1"

    @property
    def remote(self) -> str:
        """The far address."""
        return f"10.{100 + self.index}.0.2"

    def ends(self, near: str, far: str) -> tuple[End, End]:
        """Both ends, for machines of these names."""
        low, high = f"10.5.{self.index}.1", f"10.5.{self.index}.2"
        return (
            End(name=near, address=self.local, under=low, other_under=high),
            End(name=far, address=self.remote, under=high, other_under=low),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """One end of a lane: the machine, its address, its and the other's address below a tunnel."""

    name: str
    address: str
    under: str
    other_under: str


def build(world: World, near: str, far: str, lanes: Sequence[Lane]) -> None:
    """Join two machines of a world by links under test and the standby, and wait for the first packets."""
    join(world, (near, f"{STANDBY_LOCAL}/24"), (far, f"{STANDBY_REMOTE}/24"), device=STANDBY)
    for name, address in ((near, SERVICE_LOCAL), (far, SERVICE_REMOTE)):
        world.place(name).batch("ip", [f"addr add {address}/32 dev lo"])
    for lane in lanes:
        add_lane(world, lane, *lane.ends(near, far))
    if lanes[0].kind is LinkKind.WIREGUARD:
        wireguard.put_before_processes(world.network(name).stat().st_ino for name in (near, far))
    # Without a way back the loose reverse path filter would take the stream for forged.
    world.place(far).batch("ip", [f"route add {SERVICE_LOCAL}/32 via {lanes[0].local} dev {lanes[0].device}"])
    for lane in lanes:
        wait_for_answer(world, near, lane.remote)


def join(world: World, near: tuple[str, str], far: tuple[str, str], *, device: str) -> None:
    """A veth pair of one name on both machines; each is given as name and address with prefix."""
    line = f"link add {device} type veth peer name {device} netns {world.network(far[0])}"
    world.place(near[0]).batch("ip", [line])
    for name, address in (near, far):
        lines = [f"addr add {address} dev {device}", f"link set {device} up", "link set lo up"]
        world.place(name).batch("ip", lines)


def wait_for_answer(world: World, name: str, address: str) -> None:
    """Wait until an address answers a machine's ping."""
    place = world.place(name)
    wait_until(
        lambda: place.run(["ping", "-n", "-q", "-c", "1", "-W", "1", address]).returncode == 0,
        timeout_s=_CONNECT_TIMEOUT_S,
        what=f"the first packet from {name} to {address}",
    )


def add_addresses(world: World, name: str, addresses: Sequence[str]) -> None:
    """Give a machine's first lane many addresses."""
    world.place(name).batch("ip", [f"addr add {address}/{PREFIX_BITS} dev test0" for address in addresses])


def numbered(network: int, count: int) -> list[str]:
    """`count` addresses 10.100.x.y of the first lane, out of one of the networks 1 (near) and 2 (far)."""
    first = (network << 13) + 1
    return [f"10.100.{number >> 8}.{number & 0xFF}" for number in range(first, first + count)]


def drop_rules(device: str) -> str:
    """An nftables transaction that silences a device in both directions."""
    chains = [f'chain {hook} {{ type filter hook {hook} device "{device}" priority 0; drop; }}' for hook in HOOKS]
    return "\n".join(["table netdev bench {", *chains, "}"]) + "\n"


def silence(world: World, name: str, device: str) -> None:
    """Drop everything that enters or leaves by a device."""
    load_nft(world.place(name), drop_rules(device))


def heal(world: World, name: str) -> None:
    """Undo `silence`."""
    load_nft(world.place(name), "delete table netdev bench\n")


def add_lane(world: World, lane: Lane, near: End, far: End) -> None:
    """One link under test with its addresses."""
    if lane.kind is LinkKind.VETH:
        own = [(end.name, f"{end.address}/{PREFIX_BITS}") for end in (near, far)]
        join(world, own[0], own[1], device=lane.device)
        return
    join(world, (near.name, f"{near.under}/24"), (far.name, f"{far.under}/24"), device=lane.under)
    ends = (near, far)
    keys = wireguard.generate_keys(2) if lane.kind is LinkKind.WIREGUARD else []
    for index, end in enumerate(ends):
        if lane.kind is LinkKind.VXLAN:
            _add_vxlan(world, lane, end)
        else:
            _add_wireguard(world, lane, end, own=keys[index], other=keys[1 - index])
        lines = [f"addr add {end.address}/{PREFIX_BITS} dev {lane.device}", f"link set {lane.device} up"]
        world.place(end.name).batch("ip", lines)


def _add_vxlan(world: World, lane: Lane, end: End) -> None:
    where = f"local {end.under} remote {end.other_under} dstport {_VXLAN_PORT} dev {lane.under}"
    line = f"link add {lane.device} type vxlan id {lane.index + 1} {where}"
    world.place(end.name).batch("ip", [line])


def _add_wireguard(world: World, lane: Lane, end: End, *, own: wireguard.KeyPair, other: wireguard.KeyPair) -> None:
    space = world.place(end.name).space
    log = world.directory / f"{end.name}-{lane.device}.log"
    started = wireguard.start_userspace(space, lane.device, log)
    world.adopt(started)
    wireguard.wait_for_socket(space, lane.device, started, log)
    port = _WIREGUARD_PORT + lane.index
    endpoint = f"{end.other_under}:{port}"
    peer = wireguard.Peer(public_key=other.public, allowed_ips=("0.0.0.0/0",), endpoint=endpoint, keepalive_s=1)
    text = wireguard.render_configuration(private_key=own.private, port=port, peers=[peer])
    wireguard.configure(space, lane.device, text)
