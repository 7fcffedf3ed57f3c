"""Findings are told when they begin and end, and give verdicts their true name."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.findings import LINGER_NS, FindingBook
from meshwatchd.core.diagnosis.peer_views import OUTDATED_NS
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.audit_facts import FaultCleared, FaultRaised, RepairAdvised, RepairStarted, RepairVerified
from meshwatchd.model.events import AgentLost, Banner, FindingsReported, PeerFault, RepairDone, RequestReceived
from meshwatchd.model.faults import CATALOGUE, FaultCode, Severity, Verdict
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.model.outputs import Repair, VerdictChanged
from meshwatchd.model.settings import MS, SECOND, RepairSettings
from tests.support.bench import Bench, ready
from tests.support.flannel_node import changed, entries, good, look, snapshot
from tests.support.lab_mesh import settings_for

HELD, NOW = entries(3), 50 * SECOND
FDB = msgspec.structs.replace(
    look(snapshot(changed(HELD, forwarding=HELD.forwarding[1:])), known=good(3))[0], peer="b1", culprit="b3"
)
SETTINGS = settings_for("b3")
WARNING = AuditFinding(code=FaultCode.RP_FILTER_STRICT, device="kilo0", subject="rp_filter", culprit="b3")


def _verdict(fault=FaultCode.OVERLAY_BLACK_HOLE, culprit="b1"):
    entry = CATALOGUE[fault]
    return Verdict(
        fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit, because=("probes die",)
    )


def _book(*findings):
    book = FindingBook(SETTINGS, "b3")
    return book, list(book.report(findings, NOW))


def test_a_finding_is_raised_once_and_cleared_once():
    """With how long it has stood."""
    book, told = _book(FDB)
    again = list(book.report((FDB,), NOW + SECOND))
    (cleared,) = book.report((), NOW + 3 * SECOND)

    assert [FaultRaised, RepairAdvised] == [type(each) for each in told]
    assert [] == again
    assert FaultCleared(fault=FDB.code, device=FDB.device, subject=FDB.subject, lasted_ns=3 * SECOND) == cleared


def test_the_status_shows_the_worst_first_with_what_is_done_about_it():
    """And the commands that would repair it."""
    book, _ = _book(WARNING, FDB)
    first, second = book.status()

    assert (FaultCode.FDB_ENTRY_MISSING, "advised", NOW) == (first.fault, first.repair, first.since_ns)
    assert "bridge fdb replace" in first.commands[0]
    assert ("none", ()) == (second.repair, second.commands)


@pytest.mark.parametrize("fault", [FaultCode.OVERLAY_BLACK_HOLE, FaultCode.UNDETERMINED, FaultCode.LEADER_DEAD])
def test_a_verdict_about_the_peer_that_a_finding_is_about_gets_its_name(fault):
    """The leader is innocent: this node does not know where it is."""
    book, _ = _book(FDB)
    explained = book.explain(_verdict(fault))

    assert (FaultCode.FDB_ENTRY_MISSING, "b3", Layer.OVERLAY) == (explained.fault, explained.culprit, explained.layer)
    assert explained.because[-1] == "probes die"
    assert any(fault in sentence for sentence in explained.because)


@pytest.mark.parametrize("culprit", ["b3", ""])
def test_an_odd_overlay_device_acquits_the_leader(culprit):
    """The odd node hears nobody and would blame its leader; where nobody is odd, nobody is blamed."""
    because = ("flannel.1 sends to UDP port 8473, its 5 peers use 8472",)
    odd = AuditFinding(
        code=FaultCode.OVERLAY_MISMATCH, device="flannel.1", subject="flannel.1", culprit=culprit, because=because
    )
    explained = _book(odd)[0].explain(_verdict(FaultCode.OVERLAY_BLACK_HOLE, "b1"))

    assert (FaultCode.OVERLAY_MISMATCH, culprit) == (explained.fault, explained.culprit)
    assert because[0] == explained.because[0]


@pytest.mark.parametrize(
    ("fault", "culprit"),
    [(FaultCode.DUPLICATE_ADDRESS, "b1"), (FaultCode.MAC_MOVED, "b1"), (FaultCode.NEIGHBOUR_WRONG, "b3")],
)
def test_a_leader_that_the_lan_hides_is_not_dead(fault, culprit):
    """It answers nobody, and it lives: the finding takes the place of the verdict about it alone."""
    hidden = AuditFinding(code=fault, device="eth0", subject="10.2.0.11", peer="b1", culprit=culprit)
    book = _book(hidden)[0]

    explained = book.explain(_verdict(FaultCode.LEADER_DEAD, "b1"))
    assert (fault, culprit, Layer.UNDERLAY) == (explained.fault, explained.culprit, explained.layer)
    assert FaultCode.NODE_UNREACHABLE is book.explain(_verdict(FaultCode.NODE_UNREACHABLE, "b2"), ("a1", "b1")).fault
    for broken in (_verdict(FaultCode.WIREGUARD_BLOCKED, "a1"), _verdict(FaultCode.ONE_WAY_BREAK, "a1")):
        assert fault is book.explain(broken, ("a1", "b1")).fault, "whichever end seems to be silent"
        assert broken.fault is book.explain(broken, ("a1", "b2")).fault


def test_a_wrong_entry_of_the_gateway_is_why_every_path_of_this_node_is_broken():
    """It is nobody's entry; what the node sends to other locations is lost, whoever is blamed for it."""
    book = _book(AuditFinding(code=FaultCode.NEIGHBOUR_WRONG, device="eth0", subject="eth0", culprit="b1"))[0]

    assert FaultCode.NEIGHBOUR_WRONG is book.explain(_verdict(FaultCode.ONE_WAY_BREAK, "a1"), ("a1", "b1")).fault
    assert FaultCode.ONE_WAY_BREAK is book.explain(_verdict(FaultCode.ONE_WAY_BREAK, "a1"), ("a1", "b2")).fault


@pytest.mark.parametrize(
    ("finding", "verdict"),
    [
        (FDB, _verdict(culprit="a1")),
        (FDB, _verdict(FaultCode.NONE)),
        (FDB, _verdict(FaultCode.STANDBY_DOWN)),
        (WARNING, _verdict()),
        (msgspec.structs.replace(FDB, culprit="a2"), _verdict()),
    ],
)
def test_a_verdict_that_a_finding_does_not_explain_stays(finding, verdict):
    """Another peer, another node, or a finding that loses no packets."""
    book, _ = _book(finding)

    assert verdict == book.explain(verdict)


@pytest.mark.parametrize(
    ("peer", "fault", "expected"),
    [
        ("b1", FaultCode.WIREGUARD_BLOCKED, FaultCode.WIREGUARD_ENDPOINT_MOVED),
        ("a1", FaultCode.WIREGUARD_BLOCKED, FaultCode.WIREGUARD_BLOCKED),
        ("", FaultCode.WIREGUARD_BLOCKED, FaultCode.WIREGUARD_BLOCKED),
        ("b1", FaultCode.OVERLAY_BLACK_HOLE, FaultCode.OVERLAY_BLACK_HOLE),
    ],
)
def test_an_endpoint_that_moved_is_why_the_tunnel_to_that_peer_is_silent(peer, fault, expected):
    """It only warns, for the sake of those who dial in; the tunnel was called blocked with the reason beside it."""
    moved = AuditFinding(
        code=FaultCode.WIREGUARD_ENDPOINT_MOVED,
        device="wg0",
        subject="KEY",
        culprit="b3",
        peer=peer,
        because=("moved",),
    )
    book, _ = _book(moved)

    assert expected is book.explain(_verdict(fault, "b1")).fault


@pytest.mark.parametrize(
    ("culprit", "expected"), [("b3", FaultCode.CONNTRACK_FULL), ("b1", FaultCode.PROBE_PORT_BLOCKED)]
)
def test_a_full_table_of_connections_is_why_a_node_does_not_hear_itself(culprit, expected):
    """Its probes to itself are new flows as well; the port is not what is wrong."""
    book, _ = _book(
        AuditFinding(code=FaultCode.CONNTRACK_FULL, device="", subject="nf_conntrack", culprit="b3", because=("full",))
    )

    assert expected is book.explain(_verdict(FaultCode.PROBE_PORT_BLOCKED, culprit)).fault


def test_a_finding_of_the_whole_device_explains_whatever_dies():
    """Nobody is reached by a device that is empty."""
    book, _ = _book(msgspec.structs.replace(FDB, code=FaultCode.OVERLAY_EMPTIED, subject=FDB.device, peer=""))

    assert FaultCode.OVERLAY_EMPTIED is book.explain(_verdict(FaultCode.LOCAL, "b3")).fault


def _enforcing():
    settings = msgspec.structs.replace(SETTINGS, repair=RepairSettings(fdb=True))
    return ready("b3", settings=settings)


def test_the_engine_repairs_tells_and_shows_it():
    """From the agent's report to its answer; the status is as bad as the finding."""
    bench = _enforcing()
    told = bench.engine.handle(FindingsReported(findings=(FDB,)), bench.now)
    (command,) = [each for each in told if isinstance(each, Repair)]

    assert Severity.CRITICAL is bench.engine.status(bench.now, {}).severity
    assert {FaultRaised, RepairStarted, Repair} <= {type(each) for each in told}
    done = bench.engine.handle(RepairDone(request=command.request, is_verified=True), bench.now)
    assert RepairVerified in {type(each) for each in done}
    bench.engine.handle(FindingsReported(), bench.now)
    assert () == bench.engine.status(bench.now, {}).findings


@pytest.mark.parametrize(
    ("fault", "culprit", "relays", "is_cause"),
    [
        (FaultCode.LOCAL, "b3", ("b3", "a1"), True),
        (FaultCode.LOCAL, "b3", ("b3", "c1"), False),
        (FaultCode.WIREGUARD_BLOCKED, "a1", ("b3", "a1"), True),
        (FaultCode.LEADER_DEAD, "a1", ("b3", "a1"), True),
        (FaultCode.WIREGUARD_BLOCKED, "c1", ("b3", "c1"), False),
    ],
)
def test_a_peer_taken_from_the_tunnel_is_why_its_node_is_silent(fault, culprit, relays, is_cause):
    """With two nodes alone a node that hears nobody suspects itself: its card, its firewall, its loopback."""
    code = FaultCode.WIREGUARD_PEER_MISSING
    book, _ = _book(AuditFinding(code=code, device="wg0", subject="KEY", peer="a1", culprit="b3"))
    named = book.explain(_verdict(fault, culprit), tuple(NodeName(each) for each in relays))

    assert ((code, "b3") if is_cause else (fault, culprit)) == (named.fault, named.culprit)


@pytest.mark.parametrize(("culprit", "is_cause"), [("a1", False), ("c1", True), ("", True)])
def test_a_silent_peer_blocks_no_tunnel_but_its_own(culprit, is_cause):
    """A site that is switched off for good must not lend its name to the tunnel to another site."""
    finding = AuditFinding(code=FaultCode.WIREGUARD_NO_HANDSHAKE, device="kilo0", subject="K", peer="c1", culprit="c1")
    named = _book(finding)[0].explain(_verdict(FaultCode.WIREGUARD_BLOCKED, culprit))
    assert is_cause is (named.fault is finding.code)


def test_the_engine_asks_again_when_the_agent_died_over_a_repair():
    """Its deadline covers what is under way."""
    bench = _enforcing()
    bench.engine.handle(FindingsReported(findings=(FDB,)), bench.now)
    bench.engine.handle(AgentLost(exit_status=1), bench.now)
    bench.run(15 * SECOND)

    assert [2] == [each.request for each in bench.said(Repair)]


def test_what_peers_said_is_forgotten_with_the_agent_that_heard_it():
    """The next one begins with what it hears; what has ended meanwhile is not told by anybody."""
    book, _ = _book()
    verdict = _verdict(FaultCode.RELAY_NOT_FORWARDING)
    book.hear((PeerFault(fault=FaultCode.FORWARDING_OFF, culprit=NodeName("b1"), source=NodeName("b1")),), NOW)

    assert FaultCode.FORWARDING_OFF is book.explain(verdict).fault
    book.agent_lost()
    assert verdict == book.explain(verdict)


def test_a_pairs_verdict_takes_the_name_of_the_finding():
    """Probes to the own leader's overlay die because this node has lost its entry."""
    bench: Bench = ready("b3")
    bench.engine.handle(FindingsReported(findings=(FDB,)), bench.now)
    bench.silent = lambda plan: (
        plan.layer in (Layer.RELAY, Layer.EFFECTIVE) or (plan.layer is Layer.OVERLAY and plan.peer == "b1")
    )
    bench.run(3 * SECOND)
    named = [each.verdict for each in bench.said(VerdictChanged)]

    assert named
    assert {FaultCode.FDB_ENTRY_MISSING} == {each.fault for each in named}
    assert {"b3"} == {each.culprit for each in named}


def test_what_was_put_right_explains_until_probes_have_noticed():
    """The entry is back, and its verdict would fall upon the innocent peer until ten answers have come."""
    book, _ = _book(FDB)
    put_right = NOW + SECOND
    list(book.report((), put_right))
    explained = book.explain(_verdict())

    assert (FaultCode.FDB_ENTRY_MISSING, "b3") == (explained.fault, explained.culprit)
    assert any("put right" in sentence for sentence in explained.because)
    assert put_right + LINGER_NS == book.deadline()
    assert _verdict(culprit="a1") == book.explain(_verdict(culprit="a1")), "of somebody else it explains nothing"
    list(book.advance(put_right + LINGER_NS - 1))
    assert FaultCode.FDB_ENTRY_MISSING is book.explain(_verdict()).fault

    list(book.advance(put_right + LINGER_NS))
    assert _verdict() == book.explain(_verdict())
    assert None is book.deadline()


def test_what_stands_goes_before_what_is_gone():
    """One entry after the other is lost and put back: the one that is lost is the cause."""
    other = msgspec.structs.replace(FDB, code=FaultCode.NEIGHBOUR_MISSING, subject="10.42.1.0")
    book, _ = _book(FDB)
    list(book.report((other,), NOW + SECOND))

    assert FaultCode.NEIGHBOUR_MISSING is book.explain(_verdict()).fault
    list(book.report((FDB,), NOW + 2 * SECOND))
    assert FaultCode.FDB_ENTRY_MISSING is book.explain(_verdict()).fault


def test_of_what_is_gone_the_latest_explains():
    """What was put right before that had its time."""
    other = msgspec.structs.replace(FDB, code=FaultCode.NEIGHBOUR_MISSING, subject="10.42.1.0")
    book, _ = _book(FDB)
    list(book.report((other,), NOW + SECOND))
    list(book.report((), NOW + 2 * SECOND))

    assert FaultCode.NEIGHBOUR_MISSING is book.explain(_verdict()).fault


def test_what_a_peer_has_taken_back_explains_as_long():
    """Its device is whole again, and this node's probes are as late as its own."""
    book, _ = _book()
    told = PeerFault(fault=FaultCode.OVERLAY_EMPTIED, culprit=NodeName("b1"), source=NodeName("b1"))
    book.hear((told,), NOW)
    assert None is book.deadline()
    book.hear((), NOW + SECOND)

    assert FaultCode.OVERLAY_EMPTIED is book.explain(_verdict()).fault
    assert NOW + SECOND + LINGER_NS == book.deadline()
    book.hear((), NOW + SECOND + LINGER_NS)
    assert FaultCode.OVERLAY_BLACK_HOLE is book.explain(_verdict()).fault
    assert None is book.deadline()


def test_what_a_peers_packets_say_of_its_devices_explains_like_a_hello():
    """It needs no agent on either side, and what is taken back lingers as well."""
    book, _ = _book()
    verdict = _verdict(FaultCode.MTU_BLACK_HOLE)
    book.hear_of_misfit(NodeName("b1"), NOW, has_misfit=True)
    book.agent_lost()

    assert FaultCode.MTU_MISCONFIGURED is book.explain(verdict).fault
    assert _verdict(FaultCode.MTU_BLACK_HOLE, "b2") == book.explain(_verdict(FaultCode.MTU_BLACK_HOLE, "b2"))
    book.hear_of_misfit(NodeName("b1"), NOW + SECOND, has_misfit=False)
    assert FaultCode.MTU_MISCONFIGURED is book.explain(verdict).fault
    book.hear((), NOW + SECOND + LINGER_NS)
    assert verdict == book.explain(verdict)


def test_a_hello_does_not_take_back_what_packets_say():
    """Both say the same of b1; it holds as long as one of them does."""
    book, _ = _book()
    book.hear_of_misfit(NodeName("b1"), NOW, has_misfit=True)
    book.hear((PeerFault(fault=FaultCode.MTU_MISCONFIGURED, culprit=NodeName("b1"), source=NodeName("b1")),), NOW)
    book.hear((), NOW + SECOND)
    book.hear((), NOW + SECOND + LINGER_NS)

    assert FaultCode.MTU_MISCONFIGURED is book.explain(_verdict(FaultCode.MTU_BLACK_HOLE)).fault


def test_in_another_mesh_peers_say_it_again():
    """Who leads there is another question; until then it lingers."""
    book, _ = _book()
    book.hear_of_misfit(NodeName("b1"), NOW, has_misfit=True, is_own_leader=True)
    book.forget_misfits(NOW + SECOND)

    assert {} == book.misfits
    book.hear((), NOW + SECOND + LINGER_NS)
    assert FaultCode.MTU_BLACK_HOLE is book.explain(_verdict(FaultCode.MTU_BLACK_HOLE)).fault


def test_the_word_of_a_node_that_has_fallen_silent_does_not_count():
    """Whoever puts its devices right while its daemon is down is not heard of."""
    bench: Bench = ready("b3")
    word = RequestReceived(
        peer=NodeName("b9"),
        layer=Layer.OVERLAY,
        path=-1,
        flow=FlowClass.PINNED,
        is_fresh_epoch=True,
        banner=Banner(has_misfit=True),
    )
    bench.engine.handle(word, bench.now)
    assert ["b9"] == list(bench.engine.state.findings.misfits)

    bench.run(OUTDATED_NS - MS)
    assert bench.engine.state.findings.misfits
    bench.run(100 * MS)
    assert not bench.engine.state.findings.misfits


def test_once_probes_have_come_round_what_was_put_right_explains_nothing_more():
    """The next fault within five seconds is another one; what goes after that lingers anew."""
    book, _ = _book(FDB)
    list(book.report((), NOW + SECOND))
    book.explain(_verdict(FaultCode.NONE))

    assert _verdict() == book.explain(_verdict())
    list(book.report((FDB,), NOW + 2 * SECOND))
    list(book.report((), NOW + 3 * SECOND))
    assert FaultCode.FDB_ENTRY_MISSING is book.explain(_verdict()).fault


@pytest.mark.parametrize("is_told", [False, True])
def test_what_probes_have_recovered_from_before_it_was_cleared_explains_nothing_more(is_told):
    """Audits and hellos are later than probes: a fault that comes between is another one. A new cause may linger."""
    book, _ = _book(*(() if is_told else (FDB,)))
    told = PeerFault(fault=FaultCode.OVERLAY_EMPTIED, culprit=NodeName("b1"), source=NodeName("b1"))

    def stand(*, is_there: bool, now: int) -> None:
        if is_told:
            book.hear((told,) if is_there else (), now)
        else:
            list(book.report((FDB,) if is_there else (), now))

    stand(is_there=True, now=NOW)
    named = book.explain(_verdict()).fault
    assert FaultCode.OVERLAY_BLACK_HOLE is not named
    book.explain(_verdict(FaultCode.NONE))
    stand(is_there=False, now=NOW + SECOND)
    assert _verdict() == book.explain(_verdict())
    stand(is_there=True, now=NOW + 2 * SECOND)
    stand(is_there=False, now=NOW + 3 * SECOND)
    assert named is book.explain(_verdict()).fault


@pytest.mark.parametrize(
    ("subject", "culprit", "expected"),
    [
        (FDB.device, "b3", FaultCode.OVERLAY_EMPTIED),
        (FDB.device, "b1", FaultCode.PROBE_PORT_BLOCKED),
        ("10.42.1.0", "b3", FaultCode.PROBE_PORT_BLOCKED),
    ],
)
def test_a_device_made_anew_is_why_a_node_does_not_hear_itself(subject, culprit, expected):
    """The address it asks itself at went with the device, and takes ten answers to be good again."""
    book, _ = _book(msgspec.structs.replace(FDB, code=FaultCode.OVERLAY_EMPTIED, subject=subject, peer=""))

    assert expected is book.explain(_verdict(FaultCode.PROBE_PORT_BLOCKED, culprit)).fault


def test_a_rule_that_diverts_pods_diverts_probes_of_the_overlay_too():
    """The overlay's address is among the pods', and the peer at which it is gets the blame."""
    diverted = AuditFinding(
        code=FaultCode.POD_ROUTE_DIVERTED, device="flannel.1", subject="10.244.4.0/24", peer="b1", culprit="b3"
    )
    mine = _verdict(FaultCode.OVERLAY_BLACK_HOLE, "b3")
    assert FaultCode.POD_ROUTE_DIVERTED == _book(diverted)[0].explain(mine, (NodeName("b1"),)).fault
    assert mine == _book(diverted)[0].explain(mine, (NodeName("a1"),))
    for fault in (FaultCode.OVERLAY_BLACK_HOLE, FaultCode.POD_UNREACHABLE):
        assert FaultCode.POD_ROUTE_DIVERTED == _book(diverted)[0].explain(_verdict(fault, "b1")).fault
        assert fault == _book(diverted)[0].explain(_verdict(fault, "a1")).fault


@pytest.mark.parametrize(
    ("fault", "culprit", "expected"),
    [
        (FaultCode.POD_UNREACHABLE, "a2", FaultCode.ALLOWED_IPS_MISSING),
        (FaultCode.POD_UNREACHABLE, "a3", FaultCode.POD_UNREACHABLE),
        (FaultCode.POD_NETWORK_BROKEN, "a2", FaultCode.ALLOWED_IPS_MISSING),
        (FaultCode.POD_NETWORK_BROKEN, "", FaultCode.ALLOWED_IPS_MISSING),
        (FaultCode.POD_NETWORK_BROKEN, "b3", FaultCode.ALLOWED_IPS_MISSING),
        (FaultCode.POD_NETWORK_BROKEN, "a3", FaultCode.POD_NETWORK_BROKEN),
        (FaultCode.NODE_UNREACHABLE, "a2", FaultCode.NODE_UNREACHABLE),
        (FaultCode.WIREGUARD_BLOCKED, "a1", FaultCode.WIREGUARD_BLOCKED),
    ],
)
def test_pods_that_no_peer_may_carry_explain_the_silence_of_pods_alone(fault, culprit, expected):
    """Their node answers every probe, and so does the tunnel."""
    missing = AuditFinding(
        code=FaultCode.ALLOWED_IPS_MISSING, device="kilo0", subject="10.244.2.0/24", peer="a2", culprit="b3"
    )
    assert expected == _book(missing)[0].explain(_verdict(fault, culprit)).fault


@pytest.mark.parametrize("code", [FaultCode.ALLOWED_IPS_MISSING, FaultCode.ALLOWED_IPS_STOLEN])
@pytest.mark.parametrize(
    ("fault", "culprit", "is_explained"),
    [
        (FaultCode.WIREGUARD_BLOCKED, "a2", True),
        (FaultCode.NODE_UNREACHABLE, "a2", True),
        (FaultCode.POD_UNREACHABLE, "a3", False),
        (FaultCode.WIREGUARD_BLOCKED, "a3", False),
    ],
)
def test_a_node_that_is_cut_off_with_its_pods_is_missed_by_every_probe(code, fault, culprit, is_explained):
    """Where pods are routed straight into WireGuard a node's address is one of theirs; of others nothing follows."""
    lost = AuditFinding(
        code=code, device="flannel-wg", subject="10.244.2.0/24", peer="a2", culprit="b3", is_cut_off=True
    )
    assert (code if is_explained else fault) == _book(lost)[0].explain(_verdict(fault, culprit)).fault


def test_an_agent_that_dies_while_a_word_lingers_leaves_nothing_to_wait_for():
    """A peer has just taken its word back. The engine asks for its deadline after every packet, and ended there."""
    book, _ = _book()
    told = PeerFault(fault=FaultCode.FDB_ENTRY_MISSING, culprit=NodeName("b1"), source=NodeName("b1"))
    book.hear((told,), NOW)
    book.hear((), NOW + SECOND)
    assert book.deadline() is not None
    book.agent_lost()

    assert book.deadline() is None


@pytest.mark.parametrize(
    ("device", "layer", "culprit", "is_cause"),
    [
        ("nebula1", Layer.WIREGUARD, "b3", True),
        ("nebula1", Layer.OVERLAY, "b3", True),
        ("nebula1", Layer.UNDERLAY, "b3", False),
        ("nebula1", Layer.WIREGUARD, "b1", False),
        ("kilo0", Layer.WIREGUARD, "b3", False),
    ],
)
def test_a_host_mesh_that_was_made_smaller_is_why_the_tunnel_does_not_fit(device, layer, culprit, is_cause):
    """Else the operator would be told to make the tunnel smaller."""
    shrunk = AuditFinding(
        code=FaultCode.MTU_MISCONFIGURED, device=device, subject=device, culprit="b3", because=("it was 1300",)
    )
    verdict = msgspec.structs.replace(_verdict(FaultCode.MTU_MISCONFIGURED, culprit), layer=layer)
    told = _book(shrunk)[0].explain(verdict)

    assert is_cause is (told.because[0] == "it was 1300")
