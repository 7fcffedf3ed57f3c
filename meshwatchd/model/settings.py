"""Every setting with its default and the reason for it.

Durations are nanoseconds here and strings with a unit ("50ms", "5min") in the file; `config.load` converts. A bound
stands in the type of its setting; how settings must fit together stands in `config.relations`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from meshwatchd.model import units
from meshwatchd.model.bisection import BisectSettings
from meshwatchd.model.canary import Canary
from meshwatchd.model.port_map import LEAST_PROBE_PORT, MOST_PROBE_PORT, RESERVED_PORTS
from meshwatchd.model.setting_types import AbsolutePath, Duration, Ip4Address, Name, OptionalName, OptionalPath
from meshwatchd.model.stamp import StampSettings
from meshwatchd.model.topology import Location, Node
from meshwatchd.model.units import DAY, HOUR

MS, SECOND, MINUTE = units.MS, units.SECOND, units.MINUTE

CONFIG_FILE = "/etc/meshwatchd/meshwatchd.toml"

MOST_ACTIONS_PER_DAY = 10_000
"""Each is remembered for a day."""


class Mode(StrEnum):
    """How far the daemon may go."""

    OBSERVE = "observe"
    ADVISE = "advise"
    ENFORCE = "enforce"


class ProbeProfile(StrEnum):
    """A named set of probe timers."""

    FAST = "fast"
    DEFAULT = "default"
    WAN = "wan"


class LinkImplementation(StrEnum):
    """Which WireGuard carries standby links."""

    AUTO = "auto"
    KERNEL = "kernel"
    USERSPACE = "userspace"


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who and where the daemon is.

    Attributes:
        node: this node's name in the mesh; empty stands for the host name.
        mode: how far it may go: observe reports only, advise also says the exact operations, enforce performs them.
        state_dir: survives reboots: standby keys and links, the boot epoch, the event log.
        runtime_dir: holds control.sock and the lock against a second daemon.
        log_format: how log lines look, for machines or for people; auto is for people in systemd's journal.
        journal_mib: keep so much of what the engine is given in runtime_dir, for `meshwatchctl replay`: some 20 min
            of a small mesh in 16 MiB. It costs a microsecond an event, and memory of the node; 0 keeps none.
    """

    node: str = ""
    mode: Mode = Mode.OBSERVE
    state_dir: AbsolutePath = "/var/lib/meshwatchd"
    runtime_dir: AbsolutePath = "/run/meshwatchd"
    log_format: Literal["auto", "json", "console"] = "auto"
    journal_mib: Annotated[int, Meta(ge=0, le=1024, description="it lies in memory")] = 0


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mesh secrets: base64 of 32 bytes each, in files that only root can read.

    To change the secret without losing a probe, go over all nodes three times, with `systemctl reload meshwatchd`
    each time: name the new file as accepted_key_file; exchange the two; empty accepted_key_file.

    Attributes:
        key_file: what this node signs its probes with.
        accepted_key_file: what it believes and answers besides, and never signs a probe with; empty for none.
    """

    key_file: AbsolutePath = "/etc/meshwatchd/mesh.key"
    accepted_key_file: OptionalPath = ""


class ProbeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent, and how often.

    Attributes:
        port: UDP port of segment probes, and the first of a band of ports (model.port_map). High, so that no privilege
            is needed and no pod is likely to use it.
        source_ports: first and last source port of fresh flows. Below ip_local_port_range (32768 on), so that probes
            do not take ports from applications, and 20 000 wide, so that fourteen fresh probes a second find a port
            that was not used towards their peer for the whole flow memory (model.source_ports).
        flow_memory: how long the network may remember a flow; a 5-tuple younger than that is not fresh. Longer than
            the idle times of common flow tables: Open vSwitch 10 s, conntrack's UDP streams 2 min, clouds 4 to 10 min.
        packets_per_second: all regular probes of this node together; where they would be more, intervals grow. 2 000
            cost a few percent of one core and 3 Mbit/s. Confirm bursts come on top, in any second no more than 7 500
            probes and a quarter of this (core.probing.packet_budget).
        wan_kbit: at rest all nodes of two locations together send no more than this over what connects them, each way;
            0 for no limit. Give it to all nodes alike. Where it is less than the profile would send, what matters
            least becomes slower first; whatever is suspected is asked at full pace. Hellos count and keep their pace:
            with ten and ten nodes and more they are 5 kbit/s. `meshwatchd --check` reports the detection that is left.
        lan_kbit: at rest this node and its neighbours ask and answer each other no more than this, each way; 0 for no
            limit. What goes on to other locations is not in it.
    """

    profile: ProbeProfile = ProbeProfile.DEFAULT
    port: Annotated[
        int, Meta(ge=LEAST_PROBE_PORT, le=MOST_PROBE_PORT, description=f"{RESERVED_PORTS} ports follow")
    ] = 18618
    source_ports: str = "10000-29999"
    flow_memory: Annotated[Duration, Meta(ge=SECOND, le=HOUR)] = 15 * MINUTE
    packets_per_second: Annotated[int, Meta(ge=50, le=1_000_000, description="of all sessions together")] = 2000
    wan_kbit: Annotated[int, Meta(ge=0, le=1_000_000, description="each way, on the wire")] = 0
    lan_kbit: Annotated[int, Meta(ge=0, le=1_000_000, description="each way, on the wire")] = 0
    canary: Annotated[tuple[Canary, ...], Meta(max_length=16, description="one for each node that matters")] = ()


class KernelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers that mark our objects. They are the whole of our ownership: what carries them is ours to remove.

    Attributes:
        protocol: of our rules and routes; 117 is unused in rt_protos.
        table_base: first of 100 tables; of 1000 in a mesh of more than four locations.
        priority_base: first of 100 rule priorities; above 100, so that Cilium's local rule stays first. Where a foreign
            rule would answer before them, rules of ours stand before that one instead.
        device_prefix: of standby links.
    """

    protocol: Annotated[int, Meta(ge=5, le=255, description="one byte, 0 to 4 are taken")] = 117
    table_base: int = 7700
    priority_base: Annotated[
        int, Meta(ge=111, le=31_900, description="behind Cilium's and NetBird's rules, ahead of Kilo's and main")
    ] = 5400
    device_prefix: Annotated[
        str,
        Meta(
            pattern=r"^[a-z][a-z0-9]{0,7}\Z",
            extra={
                "problem": "is no prefix for devices",
                "remedy": "write 1 to 8 lower-case letters and digits, a letter first, such as mw",
            },
        ),
    ] = "mw"


class StandbySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Standby links between relays.

    Attributes:
        port: UDP port of the first link, counting up; clear of Kilo (51820), flannel (51821) and Cilium (51871).
        private_key_file: made when it is missing; its public key is in the log.
        mtu: that of the mesh's own WireGuard device, so that nothing changes size on a failover.
        keepalive: keeps the session and any NAT mapping warm; a cold peer costs a handshake. In whole seconds, as
            WireGuard counts; a NAT mapping outlives 25 s nearly everywhere.
        implementation: kernel, userspace (wireguard-go), or auto: the kernel's where there is one.
    """

    port: Annotated[int, Meta(ge=1024, le=65_535)] = 51830
    private_key_file: AbsolutePath = "/var/lib/meshwatchd/standby.key"
    mtu: Annotated[int, Meta(ge=576, le=65_455, description="bytes inside the tunnel")] = 1420
    keepalive: Annotated[Duration, Meta(ge=SECOND, le=MINUTE)] = 10 * SECOND
    implementation: LinkImplementation = LinkImplementation.AUTO


class MtuSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Measuring what size each layer of each path carries.

    Attributes:
        enabled: one probe of full size a second for a path in use, and seldom elsewhere (core.pmtu). A black hole
            of large packets is invisible to everything else: pings pass, and image pulls hang.
        fragments: also ask whether the underlay delivers fragments. Tunnels whose MTU is too large live by them, and
            some clouds and firewalls drop them for good: there this warning is of no use.
        move: a path in use that carries small packets only is left for a standby that carries all. Off, since a path
            with a black hole still carries most of what matters, and both sites must be of one mind.
    """

    enabled: bool = True
    fragments: bool = True
    move: bool = False


class PolicySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When to move and when to come back: fast down, slow up.

    Attributes:
        hold_down: earliest failback after a failover; doubles with every recent flap.
        jitter_percent: a random share of the hold-down, up to so much, is added to it: fifty locations must not come
            home in one instant.
        wait_to_restore: how long the primary must have been clean before failback (G.8031's WTR).
        revertive: False leaves failback to the operator.
        actions_per_minute: switches of one pair of locations in any minute; more is a flap, not a repair.
        actions_per_day: the same for a day: two an hour for a whole day is a line to be repaired by people.
        half_life: a path gets 1000 points of penalty each time it is condemned; they halve in this time (RFC 2439).
        suppress: from so many points on a path is not come back to: a third flap within a minute or two.
        reuse: below so many it is again.
        storm_locations: when so many locations, and more than half of all, go bad at once, the cause is near: only a
            path that avoids what they share is taken without waiting. Fewer than three prove nothing.
    """

    hold_down: Annotated[Duration, Meta(ge=0, le=DAY)] = 30 * SECOND
    jitter_percent: Annotated[int, Meta(ge=0, le=100)] = 20
    wait_to_restore: Annotated[Duration, Meta(ge=0, le=HOUR)] = 10 * SECOND
    revertive: bool = True
    actions_per_minute: Annotated[int, Meta(ge=1, le=60)] = 6
    actions_per_day: Annotated[int, Meta(ge=1, le=MOST_ACTIONS_PER_DAY)] = 48
    half_life: Annotated[Duration, Meta(ge=100 * MS, le=HOUR)] = MINUTE
    suppress: Annotated[int, Meta(ge=1001, le=100_000)] = 2000
    reuse: Annotated[int, Meta(ge=1)] = 750
    storm_locations: Annotated[int, Meta(ge=2, le=1000)] = 3


class DiscoverySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a node finds out which mesh it is in: from its own kernel and files, and from what other nodes tell.

    Daemons greet each other on a UDP port below probe.port, signed with the mesh key.

    Attributes:
        enabled: False leaves everything to [mesh].
        peers: addresses of nodes to greet besides those that routes and WireGuard peers name.
        location: the name of this node's location, where it is not to be found out.
        standbys: backups of each leader that get standby links, the same on every node; 0 makes none. Of the nodes in
            enforce mode the first by name are taken.
        forbid: names of nodes that are no part of the mesh, whatever they say.
        endpoint: the address or host name under which other locations reach this node's standby links. Empty: as the
            mesh's WireGuard peers and other daemons see it.
        source_uids: users whose programs are asked where Kilo's and Cilium's agents listen. Root's are in any case; of
            anybody else's a line in the log says that it is not.
        forget: how long a node is kept that says nothing; a dead node is a fault, one that was removed is none.
            Shorter than a reboot, and a node would be forgotten by each.
    """

    enabled: bool = True
    peers: Annotated[tuple[str, ...], Meta(max_length=64, description="one or two of each location will do")] = ()
    location: OptionalName = ""
    standbys: Annotated[int, Meta(ge=0, le=1, description="a pair of locations has 8 paths")] = 1
    forbid: tuple[Name, ...] = ()
    endpoint: str = ""
    source_uids: tuple[Annotated[int, Meta(ge=0, le=2**32 - 2, description="the highest user number")], ...] = ()
    forget: Annotated[Duration, Meta(ge=10 * MINUTE, le=365 * DAY)] = 72 * HOUR


class RepairSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which repairs of overlay devices may be made, in mode enforce; each is off until it is wanted.

    Whatever is off, and everything in the other modes, is told with the exact operations and commands instead. Only
    devices that are understood (flannel's own, and Liqo's) are ever touched.

    Attributes:
        neighbour: put back the permanent neighbour of one peer.
        fdb: put back the FDB entry of one peer.
        route: put back the route to one peer's pods, with its exact attributes; never over anybody else's. With
            flannel's wireguard backend one route leads to the pods of all, with Liqo two to all of another cluster.
        move_fdb: send one peer's frames to another of its addresses, where the peer itself says that it has moved.
        reseed: put back all entries of all peers of a device that was emptied; of Liqo's the address and the routes.
        bounce: take a device up again that somebody took down, and put back what went with it.
        actions_per_minute, actions_per_day: of all repairs together; more is a fight with somebody, not a repair.
    """

    neighbour: bool = False
    fdb: bool = False
    route: bool = False
    move_fdb: bool = False
    reseed: bool = False
    bounce: bool = False
    actions_per_minute: Annotated[int, Meta(ge=1, le=60)] = 12
    actions_per_day: Annotated[int, Meta(ge=1, le=MOST_ACTIONS_PER_DAY)] = 200


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Figures for Prometheus; off by default.

    Attributes:
        listen: "address:port" at which /metrics is served over HTTP, as "127.0.0.1:9469"; empty for none. There is no
            authentication: what is reachable from outside is public.
        textfile: a file for node_exporter's textfile collector, ending in .prom and written every 15 s; empty for none.
            The service may write below /run/meshwatchd, which node_exporter reads with
            --collector.textfile.directory=/run/meshwatchd.
    """

    listen: str = ""
    textfile: Annotated[
        str,
        Meta(
            pattern=r"^(/[^\0]*\.prom)?\Z",
            extra={
                "problem": "is no absolute path that ends in .prom",
                "remedy": "node_exporter reads no other files: write /run/meshwatchd/meshwatchd.prom",
            },
        ),
    ] = ""


class LiqoSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is asked where Liqo joins this cluster with others.

    The gateway pods are asked by ping in any case, through Liqo's devices: that tells this node's leg to them.

    Attributes:
        beyond: addresses of other clusters that answer a ping, as this cluster sees them; two or more of each cluster,
            of different nodes. Where all of one cluster fall silent while its gateway pod answers, what is behind that
            pod is named. Without any, nothing is said of it.
    """

    beyond: Annotated[tuple[Ip4Address, ...], Meta(max_length=32, description="each is asked every two seconds")] = ()


class CiliumSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be done where Cilium Cluster Mesh joins this cluster with others.

    Attributes:
        outer_reroute: in mode enforce, where the way to one node of another cluster is dead, send the outer packets
            for it (VXLAN, Geneve, WireGuard) through a node on this node's own network that reaches it, after packets
            through that node have been answered; they go their own way again once that is well, whatever
            policy.revertive says. Off, since the relay must forward packets that are not its own, and a cloud may
            drop those. What it would do is reported in any case. Where packets are lost in both directions it has to
            be on at both ends.
    """

    outer_reroute: bool = False


class SubmarinerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be done where Submariner joins this cluster with others.

    Attributes:
        leg_detour: in mode enforce, where a worker's VXLAN leg to the gateway (UDP 4800) is broken, send what is for
            other clusters to the gateway, or to another worker, by the pods' network, after probes that way have been
            answered; it goes by the leg again once that is well. Off, since it is new and was tried on an imitation of
            Submariner alone. It has to be on at the worker, and at the gateways of the other clusters, which answer
            the probes. Turned off, it takes back at the next start what it has moved, whatever the leg is like.
    """

    leg_detour: bool = False


class MeshSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The mesh as the operator declares it, or as it was found.

    Declared locations and nodes together are the whole mesh, and nothing is found out. Locations alone pin their
    leaders and standbys, nodes alone pin what is said about them; the rest is found.

    Attributes:
        ipip_device: through which non-leaders reach their leader with traffic to other locations, where Kilo
            encapsulates: tunl0, or cilium_tunl with Cilium 1.15 to 1.17. Empty: there is none (Kilo over flannel).
        traits: of a kind of mesh that a package brings (`mesh_profile.Trait`), where the mesh is declared; those of a
            built-in kind are known.
    """

    profile: str = "kilo"
    wireguard_device: str = "kilo0"
    overlay_device: str = "flannel.1"
    ipip_device: str = ""
    traits: tuple[str, ...] = ()
    location: tuple[Location, ...] = ()
    node: tuple[Node, ...] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration file."""

    daemon: DaemonSettings = DaemonSettings()
    auth: AuthSettings = AuthSettings()
    probe: ProbeSettings = ProbeSettings()
    kernel: KernelSettings = KernelSettings()
    standby: StandbySettings = StandbySettings()
    policy: PolicySettings = PolicySettings()
    repair: RepairSettings = RepairSettings()
    mtu: MtuSettings = MtuSettings()
    metrics: MetricsSettings = MetricsSettings()
    stamp: StampSettings = StampSettings()
    discovery: DiscoverySettings = DiscoverySettings()
    bisect: BisectSettings = BisectSettings()
    liqo: LiqoSettings = LiqoSettings()
    cilium: CiliumSettings = CiliumSettings()
    submariner: SubmarinerSettings = SubmarinerSettings()
    mesh: MeshSettings = MeshSettings()
