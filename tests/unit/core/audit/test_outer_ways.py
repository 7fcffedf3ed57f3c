"""What is said of a way: who would relay, what it takes, and what is in force."""

from __future__ import annotations

import msgspec

from meshwatchd.core.audit.outer_ways import Terms, audit_outer_ways, with_known_cause
from meshwatchd.core.routes.outer_reroute import OuterReroute
from meshwatchd.core.routes.outer_way import WayState
from meshwatchd.model.faults import FaultCode, Severity
from meshwatchd.model.outer_reroute import Way, WayAnswer
from meshwatchd.model.rule_window import RuleWindow
from meshwatchd.model.settings import KernelSettings, PolicySettings
from tests.support.cluster_node import mesh, node_ip, snapshot
from tests.support.example_status import HEALTHY, finding

ALWAYS = WayAnswer(seen=node_ip("e1"))


def _terms(*, is_allowed):
    window = RuleWindow(first=5400)
    return Terms(window=window, kernel=KernelSettings(), ports=(8472, 51_871), is_allowed=is_allowed)


def _after(rounds, *answered, may_move=False):
    made = OuterReroute("e1", PolicySettings())
    made.see(snapshot("e1"), mesh())
    made.suspect(("w1",))
    for now in range(rounds):
        answers = {each: ALWAYS if each.way in answered else None for each in made.questions()}
        made.observe(answers, now, may_move=may_move)
    return made


def _said(made, *, is_allowed=False):
    found = list(audit_outer_ways(made, _terms(is_allowed=is_allowed)))
    assert all((each.code, each.subject) == (FaultCode.OUTER_WAY_BROKEN, "w1") for each in found)
    return "\n".join(sentence for each in found for sentence in each.because)


def test_nothing_is_said_of_a_doubt_or_where_no_neighbour_reaches_the_node():
    """The verdict of the probes names that; nor is anything after a relay in use, when the node itself reboots."""
    assert "" == _said(_after(3, Way.VOUCHED))
    assert "" == _said(_after(20))
    assert "" == _said(_after(20, may_move=True), is_allowed=True)
    made = _after(14, Way.VOUCHED, Way.RELAYED, may_move=True)
    assert made.ways[0].is_rerouted
    for now in range(14, 60):
        made.observe(dict.fromkeys(made.questions()), now, may_move=True)
    assert made.ways[0].state is WayState.BROKEN
    assert "" == _said(made, is_allowed=True)


def test_advice_has_the_exact_commands_and_the_switch():
    """Route before rules, none in a place of ours: what a person puts is no daemon's to remove."""
    said = _said(_after(20, Way.VOUCHED))
    made = _after(20, Way.VOUCHED)
    via = made.ways[0].vouchers[0]
    assert "w1 answers neither at 10.82.0.11 nor in the overlay" in said
    assert f"{via.name} ({via.address}), on this node's own network, reaches it and forwards packets" in said
    assert (
        f"ip route add 10.82.0.11/32 via {via.address} dev eth0 src 10.81.0.11 onlink table 7699;"
        " ip rule add pref 5399 from all iif lo ipproto udp dport 8472 lookup 7699;"
        " ip rule add pref 5399 from all iif lo ipproto udp dport 51871 lookup 7699"
    ) in said
    assert "[cilium] outer_reroute = true in mode enforce" in said
    assert "ip route add" not in _said(made, is_allowed=True)


def test_no_command_touches_a_table_or_a_priority_of_the_kernels_own():
    """Settings are free to choose places next to them."""
    made = _after(20, Way.VOUCHED)

    def advised(first, table_base):
        kernel = KernelSettings(priority_base=first, table_base=table_base)
        terms = Terms(window=RuleWindow(first=first), kernel=kernel, ports=(8472,), is_allowed=False)
        return "\n".join(line for each in audit_outer_ways(made, terms) for line in each.because)

    assert "ip rule add" not in advised(1, 7700)
    assert "as root" not in advised(1, 7700)
    assert "lookup 1256" in advised(5400, 256)
    assert "table 1256" in advised(5400, 256)
    assert "pref 1 " in advised(2, 7700)


def test_one_round_in_which_no_neighbour_answers_takes_no_advice_back():
    """A neighbour that is busy for a moment; a second round without it is another matter."""
    made = _after(20, Way.VOUCHED)
    said = _said(made)
    made.observe(dict.fromkeys(made.questions()), 20, may_move=False)
    assert said == _said(made) != ""
    made.observe(dict.fromkeys(made.questions()), 21, may_move=False)
    assert "" == _said(made)


def test_where_the_host_answers_outer_packets_alone_are_lost():
    """A filter that does not know their port."""
    assert "outer packets alone are lost" in _said(_after(20, Way.VOUCHED, Way.DIRECT))


def test_what_is_tried_in_force_or_refused_is_said():
    """With the relay's name and the reason."""
    tried = _after(8, Way.VOUCHED, Way.RELAYED, may_move=True)
    assert "are being tried" in _said(tried, is_allowed=True)
    forced = _after(14, Way.VOUCHED, Way.RELAYED, may_move=True)
    for now in range(14, 20):
        forced.observe(dict.fromkeys(forced.questions(), ALWAYS), now, may_move=False)
    assert "outer packets to w1 (10.82.0.11) go through" in _said(forced, is_allowed=True)
    assert "table 7797 has the route" in _said(forced, is_allowed=True)
    refused = _after(19, Way.VOUCHED, may_move=True)
    assert "are not answered: where packets from w1 are lost as well" in _said(refused, is_allowed=True)


def test_a_node_whose_silence_has_a_known_cause_needs_no_way_around():
    """What is wrong with its WireGuard peer here, or what it has told of itself, is not mended by another way."""
    status = msgspec.structs.replace(HEALTHY, findings=(), pairs=HEALTHY.pairs[:1])
    verdict = msgspec.structs.replace(status.pairs[0].verdict, culprit="w2", told_by="w2")
    told = msgspec.structs.replace(status, pairs=(msgspec.structs.replace(status.pairs[0], verdict=verdict),))
    seen = msgspec.structs.replace(verdict, told_by="")
    seen_here = msgspec.structs.replace(status, pairs=(msgspec.structs.replace(status.pairs[0], verdict=seen),))

    assert {"w1"} == with_known_cause(msgspec.structs.replace(status, findings=(_finding(Severity.CRITICAL),)))
    assert {"w2"} == with_known_cause(told)
    assert not with_known_cause(msgspec.structs.replace(status, findings=(_finding(Severity.WARNING),)))
    assert not with_known_cause(seen_here), "the probes say that it is silent, and not why"


def _finding(severity):
    return finding(
        FaultCode.ALLOWED_IPS_MISSING,
        device="cilium_wg0",
        subject="10.82.0.11/32",
        peer="w1",
        culprit="e1",
        severity=severity,
    )
