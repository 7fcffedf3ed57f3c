"""What nodes tell each other of causes: who says what, who believes it, and which verdict it takes the place of."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.confession import MAX_TOLD, confess
from meshwatchd.core.audit.peer_faults import EXPLAINS, believe, explain
from meshwatchd.model.discovery import ToldFault
from meshwatchd.model.events import PeerFault, PeersTold
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.outputs import VerdictChanged
from meshwatchd.model.settings import SECOND
from meshwatchd.model.status import FindingStatus
from tests.support import hellos
from tests.support.bench import Bench, ready


def _told(fault, culprit):
    return ToldFault(fault, NodeName(culprit))


def _word(*, fault, culprit, source, is_own_leader=False):
    return PeerFault(
        fault=FaultCode(fault), culprit=NodeName(culprit), source=NodeName(source), is_own_leader=is_own_leader
    )


FORWARDING = _told(FaultCode.FORWARDING_OFF, "b1")
GONE = _told(FaultCode.OVERLAY_DEVICE_MISSING, "b3")
MAC = _told(FaultCode.VTEP_MAC_CHANGED, "b1")


def _finding(fault, culprit, peer=""):
    entry = CATALOGUE[fault]
    return FindingStatus(
        fault=fault,
        layer=entry.layer,
        severity=entry.severity,
        device="",
        subject="x",
        peer=peer,
        culprit=culprit,
        since_ns=0,
        because=(),
        repair="none",
        commands=(),
    )


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(
        fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit, because=("probes die",)
    )


def _status(node, *findings, verdict=None):
    bench: Bench = ready(node)
    status = msgspec.structs.replace(bench.engine.status(bench.now, {}), findings=findings)
    if verdict is None:
        return status
    return msgspec.structs.replace(status, pairs=(msgspec.structs.replace(status.pairs[0], verdict=verdict),))


def _mesh(**told):
    """Everybody's hellos, with what some of them have to tell."""
    return {
        name: msgspec.structs.replace(each, faults=told.get(name, ())) for name, each in hellos.whole_mesh().items()
    }


def test_a_node_tells_what_it_has_found_in_its_kernel():
    """What concerns nobody else is not told: an entry of one peer."""
    status = _status("b1", _finding(FaultCode.FORWARDING_OFF, "b1"), _finding(FaultCode.FDB_ENTRY_MISSING, "b1"))

    assert (FORWARDING,) == confess(status, _mesh())


ENTRIES = (
    *(FaultCode.NEIGHBOUR_MISSING, FaultCode.NEIGHBOUR_WRONG_MAC),
    *(FaultCode.FDB_ENTRY_MISSING, FaultCode.FDB_ENTRY_WRONG),
)


@pytest.mark.parametrize("fault", ENTRIES)
def test_an_entry_of_the_own_leader_concerns_all_other_locations(fault):
    """By its gateway go the answers to them: they see a node that is silent. One of another neighbour stays at home."""
    (told,) = confess(_status("b3", _finding(fault, "b3", "b1"), _finding(fault, "b3", "b2")), _mesh())
    assert _told(fault, "b3") == told
    assert () == confess(_status("b3", _finding(fault, "b3", "b2")), _mesh())
    assert () == confess(_status("b2", _finding(fault, "b2", "b3")), _mesh())

    mesh = _mesh(b3=(told,))
    assert (told,) == confess(_status("b1"), mesh)
    word = (_word(fault=fault, culprit="b3", source="b1"),)
    assert word == believe(_mesh(b1=(told,)), "a2")
    assert () == believe(_mesh(b1=(told,), b3=(told,)), "b2"), "a neighbour is answered without that entry"
    assert fault is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word).fault
    assert FaultCode.LEADER_DEAD is explain(_verdict(FaultCode.LEADER_DEAD, "b3"), word).fault


@pytest.mark.parametrize("fault", ENTRIES)
def test_a_leaders_entry_of_a_member_concerns_that_member_and_all_other_locations(fault):
    """The member blames its leader, the others the member, and its neighbours nobody."""
    (told,) = confess(_status("b1", _finding(fault, "b1", "b3")), _mesh())
    assert ToldFault(fault, NodeName("b1"), NodeName("b3")) == told
    assert () == confess(_status("b1", _finding(fault, "b1", "a1")), _mesh())
    mesh = _mesh(b1=(told,))
    assert (told,) == confess(_status("b2"), mesh), "the leader itself may not be heard"

    cut_off, others = believe(mesh, "b3"), believe(mesh, "a3")
    assert () == believe(mesh, "b2")
    for verdict, word in (
        (_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1"), cut_off),
        (_verdict(FaultCode.NODE_UNREACHABLE, "b3"), others),
    ):
        explained = explain(verdict, word)
        assert (fault, "b1") == (explained.fault, explained.culprit)
    for verdict in (_verdict(FaultCode.NODE_UNREACHABLE, "b2"), _verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1")):
        assert verdict == explain(verdict, others)


def test_a_device_that_does_not_fit_is_why_probes_blame_its_node():
    """Its own word reaches the neighbours over the underlay, and the others from these."""
    (told,) = confess(_status("b3", _finding(FaultCode.OVERLAY_MISMATCH, "b3")), _mesh())
    assert () == confess(_status("b3", _finding(FaultCode.OVERLAY_MISMATCH, "")), _mesh()), "of two nobody is odd"

    assert (told,) == confess(_status("b1"), _mesh(b3=(told,)))
    word = believe(_mesh(b1=(told,)), "a2")
    assert FaultCode.OVERLAY_MISMATCH is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault
    assert FaultCode.OVERLAY_BLACK_HOLE is explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1"), word).fault


@pytest.mark.parametrize("fault", [FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED])
def test_what_the_lan_does_to_a_node_is_told_by_its_neighbours(fault):
    """The node itself cannot see it, so it hears of it too; what it says of itself few others hear."""
    (told,) = confess(_status("b2", _finding(fault, "b1", "b1")), _mesh())

    assert _told(fault, "b1") == told
    for node, verdict in (("a1", FaultCode.WIREGUARD_BLOCKED), ("b3", FaultCode.LEADER_DEAD), ("b1", FaultCode.LOCAL)):
        assert fault is explain(_verdict(verdict, "b1"), believe(_mesh(b2=(told,)), node)).fault
    assert (told,) == confess(_status("b3"), _mesh(b1=(told,)))
    word = believe(_mesh(b3=(told,)), "a1")
    is_named = explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault is fault
    assert is_named is (fault is FaultCode.DUPLICATE_ADDRESS), "b3 has the address, and is silent for it"
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word).fault


def test_a_wrong_neighbour_entry_is_told_by_the_node_that_has_it():
    """Its leader does not hear it; another neighbour passes the word on."""
    (told,) = confess(_status("b3", _finding(FaultCode.NEIGHBOUR_WRONG, "b3", "b1")), _mesh())

    assert (told,) == confess(_status("b2"), _mesh(b3=(told,)))
    word = believe(_mesh(b2=(told,)), "b1")
    assert FaultCode.NEIGHBOUR_WRONG is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b3"), word).fault
    assert FaultCode.NODE_UNREACHABLE is explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word).fault


@pytest.mark.parametrize("fault", [FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED, FaultCode.NEIGHBOUR_WRONG])
def test_a_relay_that_the_lan_hides_is_why_its_path_is_broken(fault):
    """Half of its frames arrive, and who is blamed is chance: the other end, a break in one direction, nobody."""
    told = confess(_status("b1", _finding(fault, "b1", "")), _mesh())
    word = (*believe(_mesh(a1=(_told(FaultCode.ONE_WAY_BREAK, "b1"),)), "b3"), *believe(_mesh(b1=told), "b3"))
    a1, b1, b2 = map(NodeName, ("a1", "b1", "b2"))

    for verdict in (
        _verdict(FaultCode.WIREGUARD_BLOCKED, "a1"),
        _verdict(FaultCode.ONE_WAY_BREAK, "b1"),
        _verdict(FaultCode.UNDETERMINED, ""),
    ):
        explained = explain(verdict, word, (a1, b1))
        assert (fault, "b1") == (explained.fault, explained.culprit)
        assert verdict.culprit == "b1" or explain(verdict, word, (a1, b2)).fault is not fault
    silent = explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), word, (a1, b1))
    assert (silent.fault is fault) is (fault is FaultCode.NEIGHBOUR_WRONG), "the relay's entry of one node behind it"


@pytest.mark.parametrize(
    ("node", "verdict", "told"),
    [
        ("b3", _verdict(FaultCode.MTU_MISCONFIGURED, "b3"), (_told(FaultCode.MTU_MISCONFIGURED, "b3"),)),
        ("b1", _verdict(FaultCode.VTEP_MAC_CHANGED, "b1"), (MAC,)),
        ("b1", _verdict(FaultCode.ONE_WAY_BREAK, "a1"), (_told(FaultCode.ONE_WAY_BREAK, "a1"),)),
        (
            "b3",
            _verdict(FaultCode.PROBE_PORT_BLOCKED, "b3"),
            (_told(FaultCode.PROBE_PORT_BLOCKED, "b3"),),
        ),
        ("b3", _verdict(FaultCode.PROBE_PORT_BLOCKED, ""), ()),
        ("b3", _verdict(FaultCode.PROBES_ONLY, "b3"), (_told(FaultCode.PROBES_ONLY, "b3"),)),
        ("b1", _verdict(FaultCode.PROBES_ONLY, "a1"), (_told(FaultCode.PROBES_ONLY, "a1"),)),
        ("b1", _verdict(FaultCode.PROBES_ONLY, ""), ()),
        ("b3", _verdict(FaultCode.POD_NETWORK_BROKEN, "a3"), (_told(FaultCode.POD_NETWORK_BROKEN, "a3"),)),
        ("b3", _verdict(FaultCode.POD_NETWORK_BROKEN, "b3"), ()),
        ("b3", _verdict(FaultCode.POD_NETWORK_BROKEN, ""), ()),
        ("b3", _verdict(FaultCode.PROBES_ONLY, "a1"), ()),
        ("b3", _verdict(FaultCode.ONE_WAY_BREAK, "a1"), ()),
        ("b3", _verdict(FaultCode.MTU_MISCONFIGURED, "b2"), ()),
        ("b1", _verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1"), ()),
    ],
)
def test_verdicts_are_told_that_only_this_node_can_know(node, verdict, told):
    """Of its own devices; and a leader of its tunnel's two directions. What probes show, others see themselves."""
    assert told == confess(_status(node, verdict=verdict), _mesh())


def test_what_a_neighbour_says_of_itself_is_passed_on_in_its_own_location():
    """Who has lost his overlay is not heard any farther."""
    mesh = _mesh(b3=(GONE, _told(FaultCode.VTEP_MAC_CHANGED, "b1")))

    assert (GONE,) == confess(_status("b1"), mesh)
    assert () == confess(_status("a1"), mesh)


@pytest.mark.parametrize(
    "fault", [FaultCode.CONNTRACK_FULL, FaultCode.DUPLICATE_ADDRESS, FaultCode.MAC_MOVED, FaultCode.NEIGHBOUR_WRONG]
)
def test_a_leader_passes_on_what_keeps_another_from_being_heard(fault):
    """Its own hello is a new flow to most, and to the other end of its tunnel maybe not; or its LAN hides it."""
    full = _told(fault, "b1")
    mesh = _mesh(b1=(full, FORWARDING))

    assert (full,) == confess(_status("a1"), mesh)
    assert () == confess(_status("a2"), mesh)


def test_whoever_has_seen_a_flow_pass_is_believed():
    """a2 keeps up one flow, which dies with others: to it nothing passes. New flows of a1 say more."""
    seen = _verdict(FaultCode.OVERLAY_NEW_FLOWS, "b1")
    (told,) = confess(_status("a1", verdict=seen), _mesh())
    word = believe(_mesh(a1=(told,)), "a2")

    for said in (FaultCode.OVERLAY_BLACK_HOLE, FaultCode.RELAY_NOT_FORWARDING):
        agreed = explain(_verdict(said, "b1"), word)
        assert (FaultCode.OVERLAY_NEW_FLOWS, "b1", "a1") == (agreed.fault, agreed.culprit, agreed.told_by)
        assert said is explain(_verdict(said, "a1"), word).fault, "another node's overlay is another matter"
    of_itself = believe(_mesh(a1=(told,)), "b1")
    assert FaultCode.OVERLAY_NEW_FLOWS is explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1"), of_itself).fault
    vague, a1, b1, b2 = _verdict(FaultCode.UNDETERMINED, ""), NodeName("a1"), NodeName("b1"), NodeName("b2")
    assert "b1" == explain(vague, word, (a1, b1)).culprit
    assert vague == explain(vague, word, (a1, b2)), "another path"
    black_hole = _verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1")
    assert () == confess(_status("a2", verdict=black_hole), _mesh()), "and nobody believes that nothing passes"
    assert seen == explain(seen, believe(_mesh(a2=(_told(FaultCode.OVERLAY_BLACK_HOLE, "b1"),)), "a1"))


@pytest.mark.parametrize(
    ("fault", "node"),
    [(FaultCode.OVERLAY_NEW_FLOWS, "a2"), (FaultCode.ONE_WAY_BREAK, "a1"), (FaultCode.POD_NETWORK_BROKEN, "a2")],
)
def test_what_a_node_has_been_told_it_does_not_tell(fault, node):
    """Two that have it of each other would say it for ever."""
    seen = _verdict(fault, "b1")

    assert (_told(fault, "b1"),) == confess(_status(node, verdict=seen), _mesh())
    assert () == confess(_status(node, verdict=msgspec.structs.replace(seen, told_by="c1")), _mesh())


@pytest.mark.parametrize(
    ("others", "culprit"),
    [
        ({"a1": "b1", "a3": "b1"}, "b1"),
        ({"a1": "b1"}, "a1"),
        ({"a1": "b1", "a3": "b1", "b3": "a1"}, "a1"),
        ({"a1": "b2", "a3": "b2"}, "a1"),
    ],
    ids=["most", "one against one", "two against two", "another path"],
)
def test_who_is_alone_with_its_relay_gives_in(others, culprit):
    """All flows of b2 to b1 are among those that pass: to it a1 loses some."""
    mesh = _mesh(**{name: (_told(FaultCode.OVERLAY_NEW_FLOWS, blamed),) for name, blamed in others.items()})
    alone = _verdict(FaultCode.OVERLAY_NEW_FLOWS, "a1")
    agreed = explain(alone, believe(mesh, "b2"), (NodeName("a1"), NodeName("b1")))
    assert (culprit, culprit != "a1") == (agreed.culprit, bool(agreed.told_by))


def test_a_hello_stays_small():
    """A node with everything wrong, of the longest name."""
    many = tuple(_finding(fault, "b1") for fault in EXPLAINS)
    long_names = tuple(_finding(fault, "n" * 200) for fault in EXPLAINS)

    assert MAX_TOLD == len(confess(_status("b1", *many), _mesh()))
    assert 1 == len(confess(_status("b1", *long_names), _mesh()))


def test_a_word_is_believed_but_for_those_this_node_knows_better_or_not_at_all():
    """Its own kernel speaks for itself; but of another MAC the others know alone."""
    mesh = _mesh(b1=(FORWARDING,), b2=(FORWARDING, MAC), b3=(_told("melted", "b3"),))
    leader = {"culprit": "b1", "source": "b1"}

    assert (_word(fault=FaultCode.VTEP_MAC_CHANGED, culprit="b1", source="b2"),) == believe(mesh, "b1")
    told = believe(mesh, "b3")
    assert _word(fault=FaultCode.FORWARDING_OFF, is_own_leader=True, **leader) == told[0]
    assert _word(fault=FaultCode.FORWARDING_OFF, **leader) == believe(mesh, "a3")[0]


def test_a_word_about_a_mac_ends_with_who_found_it():
    """b2 found it, b1 repeats it, and b2 does not take it from b1: else it would stand for ever."""
    assert () == confess(_status("b2"), _mesh(b1=(MAC,)))


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (FORWARDING, _verdict(FaultCode.RELAY_NOT_FORWARDING, "b1")),
        (GONE, _verdict(FaultCode.NODE_UNREACHABLE, "b3")),
        (MAC, _verdict(FaultCode.ALL_PATHS_DOWN, "b1")),
        (_told(FaultCode.MTU_MISCONFIGURED, "b3"), _verdict(FaultCode.MTU_BLACK_HOLE, "b3")),
        (_told(FaultCode.CONNTRACK_INVALID, "b3"), _verdict(FaultCode.OFFLOAD_FAULT, "b3")),
        (_told(FaultCode.CONNTRACK_FULL, "b1"), _verdict(FaultCode.OVERLAY_NEW_FLOWS, "b1")),
        (_told(FaultCode.CONNTRACK_FULL, "b1"), _verdict(FaultCode.WIREGUARD_BLOCKED, "b1")),
        (_told(FaultCode.PROBES_ONLY, "b1"), _verdict(FaultCode.POD_UNREACHABLE, "b1")),
        (_told(FaultCode.CLUSTER_ROUTE_MISSING, "b1"), _verdict(FaultCode.PROBES_ONLY, "b1")),
        (_told(FaultCode.BGP_ROUTE_ESCAPED, "b1"), _verdict(FaultCode.PROBES_ONLY, "b1")),
    ],
)
def test_a_cause_takes_the_place_of_its_consequence(fault, verdict):
    """Severity and evidence stay. What probes of others say of the same node is heard first, and is no cause."""
    told = _word(fault=fault.fault, culprit=fault.culprit, source="b2")
    explained = explain(verdict, (_word(fault=FaultCode.PROBES_ONLY, culprit=fault.culprit, source="b2"), told))

    assert (fault.fault, fault.culprit, verdict.severity) == (explained.fault, explained.culprit, explained.severity)
    assert CATALOGUE[told.fault].layer is explained.layer
    assert "probes die" == explained.because[-1]
    assert explained.because[0].startswith("b2 reports")


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (FORWARDING, _verdict(FaultCode.WIREGUARD_BLOCKED, "b1")),
        (FORWARDING, _verdict(FaultCode.RELAY_NOT_FORWARDING, "a1")),
        (GONE, _verdict(FaultCode.LEADER_DEAD, "b3")),
        (_told(FaultCode.WIREGUARD_KEY_MISMATCH, "b1"), _verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1")),
    ],
)
def test_another_fault_or_another_node_is_not_explained(fault, verdict):
    """Two things may be wrong at once."""
    assert verdict == explain(verdict, (_word(fault=fault.fault, culprit=fault.culprit, source="b1"),))


@pytest.mark.parametrize(
    ("source", "hearer", "told", "is_believed"),
    [
        ("b2", "a2", ToldFault(FaultCode.FDB_ENTRY_MISSING, NodeName("b1"), NodeName("b3")), True),
        ("a3", "b2", ToldFault(FaultCode.FDB_ENTRY_MISSING, NodeName("b1"), NodeName("b3")), False),
        ("b2", "a2", ToldFault(FaultCode.FDB_ENTRY_MISSING, NodeName("b3"), NodeName("b1")), False),
        ("b2", "a2", ToldFault(FaultCode.FDB_ENTRY_MISSING, NodeName("a1"), NodeName("b1")), False),
        ("b2", "a2", ToldFault(FaultCode.OVERLAY_DEVICE_MISSING, NodeName("b1"), NodeName("b3")), False),
    ],
)
def test_only_its_own_location_takes_the_blame_from_a_node(source, hearer, told, is_believed):
    """A stolen node could put it on anybody: another location's, a member, another location, another fault."""
    seen = _verdict(FaultCode.NODE_UNREACHABLE, told.peer)

    assert is_believed is (told.culprit == explain(seen, believe(_mesh(**{source: (told,)}), hearer)).culprit)


@pytest.mark.parametrize(
    ("fault", "blamed", "relays", "expected"),
    [
        (FaultCode.CONNTRACK_FULL, "", ("b1", "a1"), FaultCode.CONNTRACK_FULL),
        (FaultCode.CONNTRACK_FULL, "", ("c1", "a1"), FaultCode.UNDETERMINED),
        (FaultCode.CONNTRACK_FULL, "a1", ("b1", "a1"), FaultCode.UNDETERMINED),
        (FaultCode.FORWARDING_OFF, "", ("b1", "a1"), FaultCode.UNDETERMINED),
    ],
)
def test_a_relay_that_takes_nothing_new_explains_what_nothing_else_does(fault, blamed, relays, expected):
    """Its table of connections is full, and which answers are missing is chance; other paths do not concern it."""
    word = _word(fault=fault, culprit="b1", source="b1")
    explained = explain(_verdict(FaultCode.UNDETERMINED, blamed), (word,), tuple(map(NodeName, relays)))

    assert expected is explained.fault


@pytest.mark.parametrize("fault", [FaultCode.PROBES_ONLY, FaultCode.PROBE_PORT_BLOCKED])
@pytest.mark.parametrize(
    ("blamed", "relays", "culprit"), [("", ("b1", "a1"), "b1"), ("", ("c1", "a1"), ""), ("a1", ("b1", "a1"), "a1")]
)
def test_who_can_tell_names_the_relay_that_passes_probes_only_or_none(fault, blamed, relays, culprit):
    """Whose word the others already have, and what is on no way of theirs, stays."""
    word = _word(fault=fault, culprit="b1", source="a1")
    explained = explain(_verdict(fault, blamed), (word,), tuple(map(NodeName, relays)))
    assert (fault, culprit) == (explained.fault, explained.culprit)


@pytest.mark.parametrize(
    ("told", "verdict", "expected"),
    [
        # b3 misses all pods of the other location; a1 misses those of b3 alone, or those behind b1.
        (("pod-network-broken", "b3"), "", ("pod-network-broken", "b3")),
        (("pod-network-broken", "b1"), "", ("pod-network-broken", "b1")),
        # The far relay has found why in its own kernel; somebody who relays nothing here is not the cause.
        (("allowed-ips-missing", "a1"), "", ("allowed-ips-missing", "a1")),
        (("pod-route-diverted", "c9"), "", ("pod-network-broken", "")),
        # A name that its own probes found is replaced by a relay's only, where the named node itself blames that one.
        (("pod-network-broken", "b1", "a3"), "a3", ("pod-network-broken", "b1")),
        (("pod-network-broken", "b2", "a3"), "a3", ("pod-network-broken", "a3")),
        (("pod-network-broken", "b1"), "a2", ("pod-network-broken", "a2")),
        (("pod-route-diverted", "a2"), "a2", ("pod-route-diverted", "a2")),
    ],
)
def test_who_misses_all_pods_of_a_location_believes_who_sees_more(told, verdict, expected):
    """Either end may be at fault: a node that misses some only tells them apart."""
    fault, culprit, source = (*told, "a1")[:3]
    word = _word(fault=fault, culprit=culprit, source=source)
    silent = _verdict(FaultCode.POD_NETWORK_BROKEN, verdict)
    explained = explain(silent, (word,), (NodeName("a1"), NodeName("b1")))

    assert expected == (explained.fault, explained.culprit)


def test_a_node_hears_that_its_own_pods_are_cut_off():
    """No look at its own kernel may tell: a filter loses them."""
    mesh = _mesh(a1=(_told(FaultCode.POD_NETWORK_BROKEN, "b3"),))

    assert [("pod-network-broken", "b3")] == [(each.fault, each.culprit) for each in believe(mesh, "b3")]


def test_a_members_own_leader_knows_what_ails_its_tunnel():
    """The member blames the other end; a leader elsewhere says nothing of this tunnel."""
    verdict = _verdict(FaultCode.WIREGUARD_BLOCKED, "a1")
    word = _word(fault=FaultCode.ALLOWED_IPS_STOLEN, culprit="b1", source="b1")
    own = msgspec.structs.replace(word, is_own_leader=True)

    assert verdict == explain(verdict, (word,))
    assert ("b1", Layer.WIREGUARD) == (explain(verdict, (own,)).culprit, explain(verdict, (own,)).layer)


@pytest.mark.parametrize(
    ("layer", "is_own", "culprit"),
    [(Layer.WIREGUARD, True, "b1"), (Layer.WIREGUARD, False, "a1"), (Layer.OVERLAY, True, "a1")],
)
@pytest.mark.parametrize("fault", [FaultCode.MTU_MISCONFIGURED, FaultCode.MTU_BLACK_HOLE])
def test_a_members_own_leader_knows_which_end_of_its_tunnel_is_too_small(fault, layer, is_own, culprit):
    """ICMP tells the member a size, and not whose: the far end of the tunnel is its guess."""
    word = msgspec.structs.replace(
        _word(fault=FaultCode.MTU_MISCONFIGURED, culprit="b1", source="b1"), is_own_leader=is_own
    )
    explained = explain(msgspec.structs.replace(_verdict(fault, "a1"), layer=layer), (word,))

    assert culprit == explained.culprit


def test_the_engine_states_what_peers_told_it():
    """b3 is silent for a1, and says why by way of b1."""
    bench: Bench = ready("a1")
    told = _word(fault=FaultCode.OVERLAY_DEVICE_DOWN, culprit="b3", source="b1")
    bench.engine.handle(PeersTold(faults=(told,)), bench.now)
    bench.silent = lambda plan: plan.peer == "b3"
    bench.run(8 * SECOND)
    named = {(each.verdict.fault, each.verdict.culprit) for each in bench.said(VerdictChanged)}

    assert (FaultCode.OVERLAY_DEVICE_DOWN, "b3") in named
    assert FaultCode.NODE_UNREACHABLE not in {fault for fault, _ in named}


@pytest.mark.parametrize(
    ("fault", "culprit", "named"),
    [
        (FaultCode.OVERLAY_EMPTIED, "b2", FaultCode.OVERLAY_EMPTIED),
        (FaultCode.FORWARDING_OFF, "b2", FaultCode.FORWARDING_OFF),
        (FaultCode.OVERLAY_NEW_FLOWS, "b2", FaultCode.OVERLAY_NEW_FLOWS),
        (FaultCode.OVERLAY_EMPTIED, "b3", FaultCode.STANDBY_DOWN),
        (FaultCode.MTU_MISCONFIGURED, "b2", FaultCode.STANDBY_DOWN),
        (FaultCode.POD_NETWORK_BROKEN, "b2", FaultCode.STANDBY_DOWN),
    ],
)
def test_a_relays_word_tells_why_its_standbys_are_silent(fault, culprit, named):
    """Where it is of all of them, and its fault takes all that it relays, or what is new of it."""
    told = (_word(fault=fault, culprit=culprit, source=culprit),)
    assert named is explain(_verdict(FaultCode.STANDBY_DOWN, ""), told, {NodeName("b2")}).fault


@pytest.mark.parametrize(("ranks", "fault"), [((1, 3), "overlay-emptied"), ((1, 2), "standby-down")])
def test_silent_standbys_are_one_fault_where_they_have_a_relay_in_common(ranks, fault):
    """Ranks 1 and 3 have b2, which says why; 1 and 2 have no relay in common."""
    bench: Bench = ready("a3")
    told = _word(fault=FaultCode.OVERLAY_EMPTIED, culprit="b2", source="b2")
    bench.engine.handle(PeersTold(faults=(told,)), bench.now)
    bench.silent = lambda plan: plan.path in ranks
    bench.run(12 * SECOND)
    last = bench.said(VerdictChanged)[-1].verdict

    assert fault == last.fault
    assert "the standby path by b2 and a1 does not answer" in last.because


def test_a_members_own_leader_knows_why_pods_beyond_the_tunnel_are_silent():
    """The member blames the node behind which the pod is; the leader of another location has no say in it."""
    silent = _verdict(FaultCode.POD_UNREACHABLE, "a2")
    own = _word(fault=FaultCode.ALLOWED_IPS_MISSING, culprit="b1", source="b1", is_own_leader=True)
    other = _word(fault=FaultCode.ALLOWED_IPS_MISSING, culprit="c1", source="c1")
    named = explain(silent, (own,))
    assert (FaultCode.ALLOWED_IPS_MISSING, "b1") == (named.fault, named.culprit)
    assert silent == explain(silent, (other,))
