"""Somebody removes what a daemon has put into the kernel: it is told first, then put back, and nothing else happens."""

from __future__ import annotations

import pytest

from netnslab import Lab
from netnslab.daemons import Daemons
from netnslab.removals import Remover, await_notice, notices, standing
from netnslab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A lab, and its daemons, all ready."""
    with Lab.up("kilo-flannel") as lab, Daemons(lab, tmp_path_factory.mktemp("removal"), config="minimal") as daemons:
        daemons.wait_ready(timeout_s=90)
        yield lab, daemons


@pytest.mark.parametrize("kind", ["rule", "route"])
def test_what_is_removed_is_told_once_and_put_back(mesh, kind):
    """The first and the last of each kind on b2, which only stands by. The time it takes: `make bench-removal`."""
    lab, daemons = mesh
    place = lab.node("b2")
    before = standing(place)
    ours = [each for each in before if each.startswith(f"{kind} ")]
    assert len(ours) >= 2
    with Remover(place) as remover:
        for named in (ours[0], ours[-1]):
            removal = remover.remove(named)
            told = await_notice(daemons, "b2", removal)
            wait_until(lambda: standing(place) == before, timeout_s=20, what=f"{named} to be back")

            assert removal.removed_ns < told.at_ns
            # A rule is known by its priority, a route by where it leads.
            assert named.split()[1].rstrip(":").removesuffix("/32") in str(told.fields["what"])
            assert [told] == notices(daemons, "b2", removal.removed_ns), "once"
            others = {event.name for event in daemons.events(since_ns=removal.removed_ns)}
            assert not others & {"failover.proposed", "failover.applied", "plan.refused", "verdict.changed"}
