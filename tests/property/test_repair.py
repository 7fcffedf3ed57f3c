"""Any single entry of a flannel node that is deleted or altered is found, alone, and its repair restores the state."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.core.audit.repair import plan_repair
from meshwatchd.model.audit import Entries, RepairPlan
from meshwatchd.model.faults import FaultCode
from tests.support.flannel_node import entries, good, hello, look, mac, snapshot

STRANGE_MAC, STRANGE_NODE = "02:de:ad:be:ef:01", "192.0.2.77"

DAMAGES: tuple[tuple[str, dict[str, Any] | None, FaultCode], ...] = (
    ("neighbours", None, FaultCode.NEIGHBOUR_MISSING),
    ("forwarding", None, FaultCode.FDB_ENTRY_MISSING),
    ("routes", None, FaultCode.POD_ROUTE_MISSING),
    ("neighbours", {"lladdr": STRANGE_MAC}, FaultCode.NEIGHBOUR_WRONG_MAC),
    ("neighbours", {"is_permanent": False}, FaultCode.NEIGHBOUR_NOT_PERMANENT),
    ("forwarding", {"dst": STRANGE_NODE}, FaultCode.FDB_ENTRY_WRONG),
)
"""Which kind of entry, what is changed of it (None: it is deleted), and the fault that is."""


def applied(plan: RepairPlan, held: Entries) -> Entries:
    """What a device holds after a plan."""
    return held.without(plan.drop).joined(plan.put)


def as_sets(held: Entries) -> tuple[set[object], ...]:
    """Entries without their order."""
    return set(held.neighbours), set(held.forwarding), set(held.routes)


@st.composite
def damages(draw: st.DrawFn) -> tuple[int, Entries, FaultCode]:
    """A number of nodes, what is left of n0's entries, and the fault that is."""
    count = draw(st.integers(3, 9))
    held = entries(count)
    index = draw(st.integers(0, count - 2))
    kind, fields, code = draw(st.sampled_from(DAMAGES))
    found = list(getattr(held, kind))
    altered = [] if fields is None else [msgspec.structs.replace(found[index], **fields)]
    found[index : index + 1] = altered
    return count, msgspec.structs.replace(held, **{kind: tuple(found)}), code


@given(damages(), st.booleans(), st.booleans())
def test_a_single_damage_is_found_alone_and_its_repair_restores_the_state(damage, is_remembered, is_told):
    """With or without a good state to compare to, with or without hellos of the peers."""
    count, held, code = damage
    hellos = {f"n{n}": hello(n, mac(n)) for n in range(1, count)} if is_told else {}
    (finding,) = look(snapshot(held), count, known=good(count) if is_remembered else None, hellos=hellos)
    plan = plan_repair(finding)

    assert code is finding.code
    assert plan is not None
    assert as_sets(entries(count)) == as_sets(applied(plan, held))
    assert () == look(snapshot(applied(plan, held)), count, known=good(count), hellos=hellos)
    assert as_sets(held) == as_sets(applied(plan.inverse(), applied(plan, held))), "the inverse takes it back"
