"""A finding is told when it has stood for its time, and a consequence never beside its cause."""

from __future__ import annotations

from meshwatchd.core.audit.confirmation import Confirmation
from meshwatchd.core.audit.overlay_entries import audit
from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import Entries
from meshwatchd.model.faults import CATALOGUE, FaultCode
from meshwatchd.model.settings import MS, SECOND
from tests.support.flannel_node import LOCAL, changed, entries, good, look, mesh, snapshot

HELD = entries(3)
GOOD = good(3)


def test_a_finding_is_told_once_it_has_stood_for_its_time():
    """Flannel writes the entries of a peer one after the other: half of them is no fault."""
    broken = look(snapshot(changed(HELD, forwarding=HELD.forwarding[1:])), known=GOOD)
    patience = CATALOGUE[FaultCode.FDB_ENTRY_MISSING].confirm_ns
    confirmation = Confirmation()

    assert () == confirmation.observe(broken, 5 * SECOND)
    assert 5 * SECOND + patience == confirmation.deadline(5 * SECOND)
    assert () == confirmation.observe(broken, 5 * SECOND + patience - 1)
    assert broken == confirmation.observe(broken, 5 * SECOND + patience)
    assert None is confirmation.deadline(5 * SECOND + patience)
    assert () == confirmation.observe((), 6 * SECOND)
    assert () == confirmation.observe(broken, 7 * SECOND), "its time begins anew"


def test_a_consequence_is_hidden_while_its_cause_is_young_too():
    """Else the symptoms would be told first: their patience is shorter."""
    view = View(snapshot=snapshot(Entries(forwarding=HELD.forwarding)), mesh=mesh(3), node=LOCAL, hellos={}, good=GOOD)
    raw, confirmation = audit(view), Confirmation()
    confirmation.observe(raw, SECOND)

    assert {FaultCode.OVERLAY_EMPTIED, FaultCode.NEIGHBOUR_MISSING, FaultCode.POD_ROUTE_MISSING} == {
        each.code for each in raw
    }
    assert () == confirmation.observe(raw, SECOND + 200 * MS)
    assert [FaultCode.OVERLAY_EMPTIED] == [each.code for each in confirmation.observe(raw, 2 * SECOND)]


def test_what_has_been_told_stays_told_while_the_kernel_changes():
    """A sysctl that is off was told, taken back and told again, since devices were about to be seen anew."""
    broken = look(snapshot(changed(HELD, forwarding=HELD.forwarding[1:])), known=GOOD)
    told_at = 5 * SECOND + CATALOGUE[FaultCode.FDB_ENTRY_MISSING].confirm_ns
    confirmation = Confirmation()
    confirmation.observe(broken, 5 * SECOND)

    assert () == confirmation.observe(broken, told_at, known_until=told_at - 1)
    assert broken == confirmation.observe(broken, told_at)
    assert broken == confirmation.observe(broken, told_at + 100 * MS, known_until=told_at - 1)
    assert () == confirmation.observe((), told_at + 200 * MS, known_until=told_at - 1)
    assert () == confirmation.observe(broken, told_at + 300 * MS, known_until=told_at - 1), "its time begins anew"
