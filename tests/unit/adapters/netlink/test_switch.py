"""The switch against the kernel: what `ip rule` shows is what was asked for, or what was there before."""

from __future__ import annotations

import errno
import json
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from meshwatchd.adapters.netlink import fibrule, message
from meshwatchd.adapters.netlink.fibrule import KernelRule
from meshwatchd.adapters.netlink.switch import RuleSwitch
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Rule, Switch
from tests.support.netns import Space, namespace

pytestmark = pytest.mark.lab

OVERRIDE = Rule(priority=5460, table=7701)
RULES = (
    OVERRIDE,
    Rule(priority=5400, table=7799, iif="mw0"),
    Rule(priority=5411, table=7701, dport=(18621, 18621)),
    Rule(priority=5411, table=7701, sport=(18621, 18621)),
    Rule(priority=5410, table=254, dport=(18620, 18625)),
    Rule(priority=5410, goto=5480, sport=(18620, 18620)),
)


@pytest.fixture
def space() -> Iterator[Space]:
    """A namespace of its own for each test."""
    with namespace() as made:
        yield made


@pytest.fixture
def switch(space: Space) -> Iterator[RuleSwitch]:
    """A switch that works in the namespace."""
    with closing(space.call(lambda: RuleSwitch(117))) as made:
        yield made


def _shown(space: Space) -> list[dict[str, object]]:
    rules = json.loads(space.ip("-j", "rule"))
    return [rule for rule in rules if rule["priority"] not in {0, 32766, 32767}]


def test_rules_are_what_ip_shows(space, switch):
    """Every kind of rule we use, read by somebody else's program."""
    switch.apply(Switch(add=RULES))

    keys = ("priority", "table", "iif", "sport", "dport", "dport_start", "dport_end", "goto")
    shown = [{key: rule[key] for key in keys if key in rule} for rule in _shown(space)]
    assert [
        {"priority": 5400, "table": "7799", "iif": "mw0"},
        {"priority": 5410, "table": "main", "dport_start": 18620, "dport_end": 18625},
        {"priority": 5410, "goto": 5480, "sport": 18620},
        {"priority": 5411, "table": "7701", "dport": 18621},
        {"priority": 5411, "table": "7701", "sport": 18621},
        {"priority": 5460, "table": "7701"},
    ] == shown
    assert {"117"} == {str(rule["protocol"]) for rule in _shown(space)}
    ported = [rule for rule in _shown(space) if "sport" in rule or "dport" in rule or "dport_start" in rule]
    assert {"udp"} == {str(rule["ipproto"]) for rule in ported}


def test_dump_reads_back_what_was_added(switch):
    """Our own reading of the kernel agrees with our writing."""
    switch.apply(Switch(add=RULES))

    assert {KernelRule(rule, 117) for rule in RULES} <= set(switch.dump())


def test_what_is_done_already_is_done(space, switch):
    """Adding twice and deleting twice succeed, and leave one rule and none."""
    switch.apply(Switch(add=(OVERRIDE,)))
    switch.apply(Switch(add=(OVERRIDE,)))
    assert 1 == len(_shown(space))

    switch.apply(Switch(delete=(OVERRIDE,)))
    switch.apply(Switch(delete=(OVERRIDE,)))
    assert [] == _shown(space)


def _clog(switch):
    """Leave no room in the socket for an acknowledgement, as memory that is short does."""
    switch._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    body = fibrule.encode_rule(Rule(priority=5999, table=9999), 117)
    flags = message.NLM_F_REQUEST | message.NLM_F_ACK
    for sequence in range(900, 910):
        switch._socket.send(message.encode(message.RTM_DELRULE, flags, sequence, body))


def test_a_change_whose_acknowledgement_is_lost_is_known_to_be_done(space, switch):
    """The kernel reports ENOBUFS for its own word: an override that nobody knew of would stay."""
    _clog(switch)
    switch.apply(Switch(add=(OVERRIDE,)))
    assert 1 == len(_shown(space))

    _clog(switch)
    switch.apply(Switch(delete=(OVERRIDE,)))
    assert [] == _shown(space)


def test_a_refusal_that_is_lost_is_a_refusal(space, switch):
    """Somebody else's rule is in the way, and the kernel's word for it has no room."""
    _clog(switch)
    with pytest.raises(KernelError):
        switch.apply(Switch(add=(Rule(priority=5460, goto=5400),)))
    assert [] == _shown(space)


def test_rule_of_somebody_else_is_neither_taken_for_ours_nor_deleted(space, switch):
    """The protocol is the whole difference, and it is enough."""
    space.ip("rule", "add", "pref", "5460", "lookup", "7701", "protocol", "43")

    switch.apply(Switch(add=(OVERRIDE,)))
    assert ["43", "117"] == [str(rule["protocol"]) for rule in _shown(space)]

    switch.apply(Switch(delete=(OVERRIDE,)))
    switch.apply(Switch(delete=(OVERRIDE,)))
    assert ["43"] == [str(rule["protocol"]) for rule in _shown(space)]


def test_failed_switch_leaves_what_was_there(space, switch):
    """The second addition is refused: the first is undone and the deletion does not happen."""
    standing = Rule(priority=5461, table=7702)
    switch.apply(Switch(add=(standing,)))
    bad = Rule(priority=5462, table=7703, iif="a-name-too-long-for-a-device")

    with pytest.raises(KernelError) as failure:
        switch.apply(Switch(add=(OVERRIDE, bad), delete=(standing,)))

    assert failure.value.errno in {errno.EINVAL, errno.ERANGE}
    assert [5461] == [rule["priority"] for rule in _shown(space)]


def test_switch_and_its_inverse_leave_no_trace(space, switch):
    """Failover and failback: one rule replaces another and comes back."""
    change = Switch(add=(OVERRIDE,), delete=(Rule(priority=5461, table=7702),))
    switch.apply(Switch(add=change.delete))
    before = _shown(space)

    switch.apply(change)
    assert [5460] == [rule["priority"] for rule in _shown(space)]
    switch.apply(change.inverse())

    assert before == _shown(space)


def test_long_dump_is_read_to_its_end(switch):
    """More rules than fit into one datagram."""
    rules = tuple(Rule(priority=5400 + number, table=7700 + number) for number in range(1500))
    switch.apply(Switch(add=rules))

    assert set(rules) <= {found.rule for found in switch.dump()}
