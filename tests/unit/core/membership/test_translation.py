"""Who is reached by way of Liqo under an address that is not its own is told."""

from __future__ import annotations

import pytest

from meshwatchd.core.membership.translation import REMEDY, tell_translation
from tests.support import hellos

BEYOND = ("10.71.0.0/16", "10.72.0.0/16")
VIEW = hellos.view("b2")


def test_an_address_that_liqo_has_given_is_told_with_the_nodes_own():
    """And what follows: nothing can be enforced there."""
    told = tell_translation(VIEW, "10.71.5.1", BEYOND)

    assert told.startswith(f"it is reached at 10.71.5.1 by way of Liqo, and goes by {VIEW.node_ip} itself")
    assert told.endswith(REMEDY)


@pytest.mark.parametrize("source", ["10.9.9.9", VIEW.node_ip, "203.0.113.7"])
def test_whoever_is_not_reached_by_liqo_is_left_alone(source):
    """NAT of the ordinary kind is no matter of this."""
    assert "" == tell_translation(VIEW, source, BEYOND)
    assert "" == tell_translation(VIEW, source, ())


def test_an_address_that_is_its_own_on_both_sides_is_no_translation():
    """Liqo leaves prefixes as they are where nothing is in their way."""
    assert "" == tell_translation(VIEW, VIEW.node_ip, (f"{VIEW.node_ip}/32",))
    assert "" == tell_translation(VIEW, VIEW.pod_cidr.replace("0/24", "1"), (VIEW.pod_cidr,))
