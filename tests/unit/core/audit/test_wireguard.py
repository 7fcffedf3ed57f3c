"""What a WireGuard device's counters and settings say of its peers."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.expected_entries import GoodState
from meshwatchd.core.audit.wireguard import TunnelAudit
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.settings import SECOND
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from tests.support.hellos import hello
from tests.support.lab_mesh import declared_mesh

MESH, START = declared_mesh(), 1000 * SECOND
PEER = WireGuardPeer(
    public_key="KEY-A",
    endpoint="203.0.113.11:51820",
    allowed_ips=("10.244.1.0/24", "192.168.100.11/32"),
    handshake_ns=START - 10 * SECOND,
    rx_bytes=10_000,
    tx_bytes=10_000,
)
OTHER = msgspec.structs.replace(PEER, public_key="KEY-C", endpoint="203.0.113.31:51820", allowed_ips=("10.9.0.0/24",))
DEVICE = WireGuardState(device="kilo0", public_key="OWN", listen_port=51820, at_ns=START, peers=(PEER, OTHER))
GOOD = GoodState(boot="b", device="flannel.1", wireguard=(DEVICE,))


class Life:
    """A device from look to look, each two seconds after the one before."""

    def __init__(self, state=DEVICE, good=GOOD, mesh=MESH):
        self.audit, self.state, self.good, self.mesh = TunnelAudit(), state, good, mesh
        self.audit.observe((state,))

    def step(self, *, rx=500, tx=500, count=1, **changes):
        """Let bytes of the first peer come and go; the second always answers."""
        for _ in range(count):
            at_ns = self.state.at_ns + 2 * SECOND
            first, *others = self.state.peers
            first = msgspec.structs.replace(
                first, rx_bytes=first.rx_bytes + rx, tx_bytes=first.tx_bytes + tx, **changes
            )
            others = [msgspec.structs.replace(each, rx_bytes=each.rx_bytes + 500) for each in others]
            self.state = msgspec.structs.replace(self.state, at_ns=at_ns, peers=(first, *others))
            self.audit.observe((self.state,))
        return self

    def found(self, node="b1", addresses=()):
        """Code and subject of each finding."""
        seen = self.audit.look((self.state,), mesh=self.mesh, node=node, good=self.good, addresses=addresses)
        assert all(each.because for each in seen)
        return [(each.code, each.subject) for each in seen]


def test_a_tunnel_that_works_or_rests_is_fine():
    """Bytes both ways, none at all, a rekey every two minutes, a peer that roams and goes on."""
    assert [] == Life().step(count=100).found()
    assert [] == Life().step(rx=0, tx=0, count=500).found()
    assert [] == Life().step(count=3, handshake_ns=START + 4 * SECOND).found()
    assert [] == Life().step(count=20, endpoint="198.51.100.77:40000").found()


def test_a_peer_is_silent_from_its_first_missing_answer_on():
    """Long before it is named; of its own device only, and until it is heard."""
    life = Life().step(rx=0)

    assert [] == life.found()
    assert frozenset(("KEY-A",)) == life.audit.silent("kilo0")
    assert frozenset() == life.audit.silent("wg0")
    assert frozenset() == life.step().audit.silent("kilo0")


def test_a_peer_that_shakes_hands_and_delivers_nothing_is_named():
    """Its handshakes come in and nothing else."""
    life = Life().step(rx=0, count=5)
    assert [] == life.found(), "nobody has shaken hands since: a blocked tunnel is the probes' to name"

    life.step(rx=272, handshake_ns=life.state.at_ns + SECOND).step(rx=0, count=3)
    assert [(FaultCode.WIREGUARD_NO_DATA, "KEY-A")] == life.found()
    assert [] == life.step(rx=900).found(), "it delivers"


@pytest.mark.parametrize("initiations", [1, 2])
def test_the_peers_own_attempts_in_vain_are_no_data(initiations):
    """Both ends begin handshakes; what the other sends for that came in between looks and ended the silence."""
    life = Life().step(rx=0, count=5).step(rx=148 * initiations).step(rx=0)
    life.step(rx=148 * initiations + 92, handshake_ns=life.state.at_ns + SECOND).step(rx=0, count=3)

    assert [(FaultCode.WIREGUARD_NO_DATA, "KEY-A")] == life.found()
    assert [] == life.step(rx=148 + 96).found(), "a small packet came with it"


def test_a_session_that_has_outlived_itself_is_no_handshake():
    """Packets go out, and the last handshake is older than any session may live."""
    life = Life().step(rx=0, count=90)
    assert [] == life.found()
    assert [(FaultCode.WIREGUARD_NO_HANDSHAKE, "KEY-A")] == life.step(rx=0, count=10).found()


def test_a_peer_that_never_answered_is_no_handshake_after_three_attempts():
    """From the first byte on."""
    fresh = msgspec.structs.replace(PEER, handshake_ns=0, rx_bytes=0, tx_bytes=148)
    life = Life(msgspec.structs.replace(DEVICE, peers=(fresh,)), good=None)

    assert [] == life.step(rx=0, tx=148, count=7).found()
    assert [(FaultCode.WIREGUARD_NO_HANDSHAKE, "KEY-A")] == life.step(rx=0, tx=148).found()


def test_a_peer_that_moved_and_fell_silent_is_named():
    """Roaming alone is no fault."""
    life = Life().step(rx=0, count=2, endpoint="198.51.100.77:40000")

    assert [(FaultCode.WIREGUARD_ENDPOINT_MOVED, "KEY-A")] == life.found()


def test_a_peer_that_came_back_with_another_key_and_never_answers_is_a_key_mismatch():
    """It has the prefixes of the one before."""
    stranger = msgspec.structs.replace(PEER, public_key="KEY-X", handshake_ns=0, rx_bytes=0, tx_bytes=148)
    life = Life(msgspec.structs.replace(DEVICE, peers=(stranger, OTHER)))

    assert [(FaultCode.WIREGUARD_KEY_MISMATCH, "KEY-X")] == life.step(rx=0, tx=148, count=8).found()


def test_another_own_key_is_a_mismatch_until_somebody_shakes_hands():
    """Then it was a rotation."""
    life = Life()
    life.state = msgspec.structs.replace(life.state, public_key="NEW")
    life.step(rx=0)

    assert (FaultCode.WIREGUARD_KEY_MISMATCH, "kilo0") in life.found()
    assert [] == life.step(handshake_ns=life.state.at_ns + SECOND).found()


def test_a_prefix_that_another_peer_has_taken_is_stolen():
    """While the one that had it is still a peer; a leader that was replaced is gone."""
    robbed = msgspec.structs.replace(PEER, allowed_ips=PEER.allowed_ips[1:])
    thief = msgspec.structs.replace(OTHER, allowed_ips=(*OTHER.allowed_ips, "10.244.1.0/24"))
    stolen = msgspec.structs.replace(DEVICE, peers=(robbed, thief))

    assert [(FaultCode.ALLOWED_IPS_STOLEN, "KEY-C")] == Life(stolen).found()
    assert [] == Life(stolen, good=None).found()
    assert [] == Life(msgspec.structs.replace(DEVICE, peers=(thief,))).found()


@pytest.mark.parametrize(
    ("prefix", "is_stolen"),
    [
        ("192.168.77.0/24", False),
        ("fd77::/64", False),
        ("10.244.0.0/16", True),
        (f"{MESH.node[0].node_ip}/32", True),
        ("fd00:1::/64", True),
    ],
    ids=["of a site", "of IPv6", "of all pods", "of a node", "of a node's pods by IPv6"],
)
def test_what_is_no_node_s_may_go_from_one_peer_to_another(prefix, is_stolen):
    """The network of a site behind another site, an address that keepalived moves; nothing else knows whose it is."""
    was = msgspec.structs.replace(OTHER, public_key="SITE", allowed_ips=("10.9.1.0/24", prefix))
    now = msgspec.structs.replace(was, allowed_ips=("10.9.1.0/24",))
    heir = msgspec.structs.replace(OTHER, allowed_ips=(*OTHER.allowed_ips, prefix))
    good = msgspec.structs.replace(GOOD, wireguard=(msgspec.structs.replace(DEVICE, peers=(PEER, OTHER, was)),))
    expected = [(FaultCode.ALLOWED_IPS_STOLEN, "KEY-C")] if is_stolen else []

    first = msgspec.structs.replace(MESH.node[0], overlay_ip6="fd00:1::1")
    mesh = msgspec.structs.replace(MESH, node=(first, *MESH.node[1:]))

    assert expected == Life(msgspec.structs.replace(DEVICE, peers=(PEER, heir, now)), good=good, mesh=mesh).found()


def test_a_prefix_that_the_mesh_gives_to_another_node_is_not_stolen():
    """A location that comes first by name makes Kilo number tunnel addresses anew; a node may move to another one."""
    own = next(each for each in MESH.node if each.name == "a2")
    robbed = msgspec.structs.replace(PEER, allowed_ips=PEER.allowed_ips[1:])
    heir = msgspec.structs.replace(OTHER, allowed_ips=(*OTHER.allowed_ips, "10.244.1.0/24"))
    life = Life(msgspec.structs.replace(DEVICE, peers=(robbed, heir)))
    hellos = {"a2": hello("a2", tunnel_public_key=OTHER.public_key)}

    assert "10.244.1.0/24" in {each.pod_cidr for each in MESH.node if each.location == own.location}
    assert () == life.audit.look((life.state,), mesh=MESH, node="b1", good=GOOD, hellos=hellos)
    moved = {"a2": hello("b2", tunnel_public_key=OTHER.public_key)}
    (found,) = life.audit.look((life.state,), mesh=MESH, node="b1", good=GOOD, hellos={"b2": moved["a2"]})
    assert FaultCode.ALLOWED_IPS_STOLEN is found.code, "that node is of another location"


def test_a_relay_behind_nat_needs_a_keepalive():
    """One without an endpoint that others know, towards a public peer."""
    nodes = tuple(
        msgspec.structs.replace(each, standby_endpoint=None) if each.name == "b1" else each for each in MESH.node
    )
    behind = msgspec.structs.replace(MESH, node=nodes)
    public, inside = PEER, msgspec.structs.replace(PEER, endpoint="10.9.9.9:51820")
    kept = msgspec.structs.replace(public, keepalive_s=25)

    assert [(FaultCode.KEEPALIVE_MISSING, "KEY-A")] == Life(
        msgspec.structs.replace(DEVICE, peers=(public,)), mesh=behind
    ).found()
    assert [] == Life(msgspec.structs.replace(DEVICE, peers=(kept,)), mesh=behind).found()
    assert [] == Life(msgspec.structs.replace(DEVICE, peers=(public,))).found()
    assert [] == Life(msgspec.structs.replace(DEVICE, peers=(inside,)), mesh=behind).found(), "both in one network"


def test_a_finding_tells_which_node_the_peer_is():
    """By its address among AllowedIPs; who dials in is no node."""
    life = Life()
    lone = msgspec.structs.replace(PEER, allowed_ips=("10.4.0.1/32",), endpoint="192.0.2.9:40000")
    named = [each.name for each in MESH.node if each.wireguard_ip == "10.4.0.1"]
    life.state = msgspec.structs.replace(DEVICE, peers=(lone, OTHER))
    life.step(rx=0, count=3)
    (found,) = life.audit.look((life.state,), mesh=MESH, node="b1", good=GOOD)

    assert (FaultCode.WIREGUARD_ENDPOINT_MOVED, named) == (found.code, [found.peer])


def test_one_silent_peer_of_several_is_named_and_all_at_once_are_this_node():
    """Each end of a broken tunnel names the other, as probes do; who hears nobody has the fault itself."""
    peers = [
        msgspec.structs.replace(PEER, allowed_ips=("10.4.0.2/32",)),
        msgspec.structs.replace(OTHER, allowed_ips=("10.4.0.0/16",)),
        msgspec.structs.replace(OTHER, public_key="LAPTOP", allowed_ips=("10.4.1.1/32", "fd00::9/128")),
    ]
    (named,) = [each.name for each in MESH.node if each.wireguard_ip == "10.4.0.2"]

    def culprits(*silent):
        looked: tuple[AuditFinding, ...] = ()
        audit, state = TunnelAudit(), msgspec.structs.replace(DEVICE, peers=tuple(peers))
        for _ in range(4):
            audit.observe((state,))
            looked = audit.look((state,), mesh=MESH, node="b1", good=None)
            state = msgspec.structs.replace(
                state,
                at_ns=state.at_ns + 2 * SECOND,
                peers=tuple(
                    msgspec.structs.replace(
                        each,
                        tx_bytes=each.tx_bytes + 500,
                        rx_bytes=each.rx_bytes + (0 if each.public_key in silent else 500),
                        handshake_ns=state.at_ns + 2 * SECOND,
                    )
                    for each in state.peers
                ),
            )
        return [(each.code, each.culprit) for each in looked]

    assert [(FaultCode.WIREGUARD_NO_DATA, named)] == culprits("KEY-A")
    assert [(FaultCode.WIREGUARD_NO_DATA, "b1")] == culprits("KEY-C"), "nobody can tell which node that peer is"
    assert {(FaultCode.WIREGUARD_NO_DATA, "b1")} == set(culprits("KEY-A", "KEY-C"))
    assert [] == culprits("LAPTOP"), "who dials in may be switched off"


HIDDEN = ("10.8.0.4", "192.168.8.11", "127.0.0.1")


def test_a_keepalive_that_is_gone_is_missed_where_no_address_is_public():
    """Nodes that go by their tunnel's address tell nothing of endpoints; the good state tells what was kept alive."""
    kept = msgspec.structs.replace(
        DEVICE, peers=tuple(msgspec.structs.replace(p, keepalive_s=25) for p in (PEER, OTHER))
    )
    good = msgspec.structs.replace(GOOD, wireguard=(kept,))
    inside = msgspec.structs.replace(DEVICE, peers=(msgspec.structs.replace(PEER, endpoint="10.9.9.9:51820"),))
    missing = FaultCode.KEEPALIVE_MISSING

    assert [(missing, "KEY-A"), (missing, "KEY-C")] == Life(good=good).found(addresses=HIDDEN)
    assert [] == Life(kept, good=good).found(addresses=HIDDEN)
    assert [] == Life().found(addresses=HIDDEN), "it never had any"
    assert [] == Life(good=good).found(addresses=(*HIDDEN, "203.0.113.41")), "everybody can call it"
    assert [] == Life(inside, good=good).found(addresses=HIDDEN), "both in one network"


@pytest.mark.parametrize("device", ["wg-admin", "mw0"])
def test_devices_that_are_not_the_meshs_are_nobodys_business(device):
    """Where people dial in, peers come and go."""
    fresh = msgspec.structs.replace(PEER, handshake_ns=0, rx_bytes=0, tx_bytes=148)

    assert [] == Life(msgspec.structs.replace(DEVICE, device=device, peers=(fresh,))).step(rx=0, count=30).found()


def test_a_tunnel_that_has_rested_is_given_three_attempts():
    """Nothing went for ten minutes; the first packets find no session, and nobody is named before handshakes fail."""
    life = Life().step(rx=0, tx=0, count=300)
    assert [] == life.step(rx=0, count=7).found()
    assert [(FaultCode.WIREGUARD_NO_HANDSHAKE, "KEY-A")] == life.step(rx=0, count=2).found()


def test_silence_counts_from_when_the_device_is_up():
    """What went out while it was down was nobody's to answer."""
    life = Life()
    for _ in range(100):
        life.step(rx=0)
        life.audit.rest(["kilo0"])
    assert [] == life.step(rx=0, count=7).found()
    assert [(FaultCode.WIREGUARD_NO_HANDSHAKE, "KEY-A")] == life.step(rx=0, count=2).found()
