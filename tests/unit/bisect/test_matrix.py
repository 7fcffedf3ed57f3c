"""Each row of the matrix on the evidence it was written for, and the nearest evidence on which it must not speak."""

from __future__ import annotations

import pytest

from meshwatchd.bisect.matrix import ROWS, explain_row, find_row
from meshwatchd.bisect.observation import DeviceState, Finding, Observation
from meshwatchd.bisect.signs import read_signs
from meshwatchd.model.bisection import Place, SeriesName
from meshwatchd.model.faults import Direction
from tests.support.bisection import (
    HEALTHY,
    MISSING,
    WRONG,
    counts,
    crafted,
    framed,
    injected,
    kernel,
    observed,
    there,
    underlay,
)

BEYOND = (Place.PEER_INGRESS, Place.PEER_OVERLAY, Place.PEER_EGRESS)
DIED_BETWEEN = kernel(12, 0)
LEFT = kernel(12, 12)
UNKNOWN = Finding()
TUNNEL = counts(SeriesName.KERNEL, 12, 12, None, None, 0)
NO_UNDERLAY = counts(SeriesName.UNDERLAY, 0)

CASES: dict[str, tuple[Observation, Place]] = {
    "all-echoed": (HEALTHY, Place.NOWHERE),
    "overlay-device": (observed(kernel(0), overlay_state=DeviceState.DOWN), Place.OVERLAY_DEVICE),
    "route": (observed(kernel(0), route=WRONG), Place.LOCAL_ROUTE),
    "neighbour-missing": (observed(kernel(0), injected(8), neighbour=MISSING), Place.LOCAL_NEIGHBOUR),
    "neighbour-wrong": (observed(LEFT, neighbour=WRONG), Place.LOCAL_NEIGHBOUR),
    "filtered-above": (observed(kernel(0), injected(8, 8, 8)), Place.LOCAL_FILTER),
    "fdb-missing": (observed(DIED_BETWEEN, crafted(8, 8), forwarding=MISSING), Place.LOCAL_FDB),
    "fdb-wrong": (observed(LEFT, forwarding=WRONG), Place.LOCAL_FDB),
    "underlay-route": (observed(DIED_BETWEEN, underlay_route=MISSING), Place.UNDERLAY_ROUTE),
    "nic": (observed(DIED_BETWEEN, lower_state=DeviceState.NO_CARRIER), Place.NIC),
    "arp": (observed(DIED_BETWEEN, crafted(0), underlay_neighbour=MISSING), Place.UNDERLAY_ARP),
    "overlay-silent": (observed(DIED_BETWEEN, crafted(8, 8), framed(8, 8)), Place.OVERLAY_DEVICE),
    "netfilter": (observed(DIED_BETWEEN, crafted(0), framed(8, 8)), Place.LOCAL_NETFILTER),
    "queue": (observed(DIED_BETWEEN, crafted(0), framed(0)), Place.LOCAL_QDISC),
    "queue-counted": (observed(DIED_BETWEEN, crafted(0), queue_dropped=20), Place.LOCAL_QDISC),
    "between-devices": (observed(DIED_BETWEEN, crafted(0)), Place.LOCAL_NETFILTER),
    "wire-out": (observed(LEFT, peer_counts=there(0)), Place.WIRE),
    "peer-ingress": (observed(LEFT, peer_counts=there(12, 0)), Place.PEER_INGRESS),
    "peer-overlay": (observed(LEFT, peer_counts=there(12, 12, 0)), Place.PEER_OVERLAY),
    "peer-egress": (observed(LEFT, peer_counts=there(12, 12, 12, 0)), Place.PEER_EGRESS),
    "wire-in": (observed(LEFT, peer_counts=there(12, 12, 12, 12)), Place.WIRE),
    "ingress": (observed(kernel(12, 12, 12, 0)), Place.LOCAL_INGRESS),
    "delivery": (observed(kernel(12, 12, 12, 12)), Place.LOCAL_INGRESS),
    "offload": (observed(LEFT, crafted(8, 8)), Place.OVERLAY_DEVICE),
    "new-flows": (observed(LEFT, crafted(8), known=(8, 8)), Place.WIRE),
    "overlay-beyond": (observed(LEFT, crafted(8), known=(8, 0)), Place.WIRE),
    "all-beyond": (observed(LEFT, crafted(8), underlay(4, 0), known=(8, 0)), Place.WIRE),
    "beyond-tunnel": (observed(TUNNEL, NO_UNDERLAY, lower=""), Place.WIRE),
    "unknown": (observed(kernel(0)), Place.UNKNOWN),
}


@pytest.mark.parametrize("name", list(CASES))
def test_row_speaks_on_its_evidence(name):
    """The row that was written for it, and no row before it."""
    seen, place = CASES[name]
    row = find_row(read_signs(seen))

    assert (name, place) == (row.name, row.place)
    assert "{" not in explain_row(row, seen)


def test_every_row_has_a_case():
    """In the table's order, so that a row nothing can reach is seen."""
    assert [row.name for row in ROWS] == list(CASES)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_sign_a_row_looks_at_matters(row):
    """Without one of its conditions another row would speak somewhere; with all of them dropped, this one would."""
    signs = read_signs(CASES[row.name][0])

    assert all(getattr(signs, sign) in allowed for sign, allowed in row.when.items())
    assert set(row.when) <= set(signs.__struct_fields__)
    assert bool(row.when) is (row.name != "unknown")


@pytest.mark.parametrize("name", ["new-flows", "overlay-beyond"])
def test_one_side_alone_names_every_place_beyond_its_nic(name):
    """Nothing tells the wire from the peer without the peer's taps."""
    row = find_row(read_signs(CASES[name][0]))

    assert BEYOND == row.also
    assert Direction.UNKNOWN is row.direction


@pytest.mark.parametrize(("stages", "direction"), [((0,), Direction.OUTBOUND), ((12, 12, 12, 12), Direction.INBOUND)])
def test_both_sides_tell_the_wire_and_its_direction(stages, direction):
    """Exactly one place is left."""
    row = find_row(read_signs(observed(LEFT, crafted(8), known=(8, 8), peer_counts=there(*stages))))

    assert (Place.WIRE, (), direction) == (row.place, row.also, row.direction)


def test_a_loss_in_part_is_found_where_it_happens():
    """A filter that drops two packets in three is a filter; what the network loses now and then is nothing."""
    selective = observed(kernel(12, 4, 4, 4, echoed=4), crafted(3, 3), framed(8, 8))

    assert "netfilter" == find_row(read_signs(selective)).name
    assert "all-echoed" == find_row(read_signs(observed(kernel(12, 12, 11, 11, echoed=11)))).name


def test_tables_come_before_counts():
    """A wrong FDB entry is the cause even where its packets leave the NIC, and where no ARP for its remote succeeds."""
    seen = observed(DIED_BETWEEN, crafted(8, 8), forwarding=WRONG, underlay_neighbour=MISSING)

    assert "fdb-wrong" == find_row(read_signs(seen)).name


def test_a_filter_that_spares_the_few_is_not_the_offload():
    """A quarter of all flows die: eight crafted ones may all be lucky, which speaks against no overlay device."""
    seen = observed(kernel(12, 12, 8, 8, echoed=8), crafted(8, 8))

    assert "offload" != find_row(read_signs(seen)).name
