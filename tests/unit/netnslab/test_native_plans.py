"""Faults of a mesh whose pods are routed straight into WireGuard, in a lab that is not built."""

import pytest

from netnslab.lab import Lab
from netnslab.native_plans import FORMS, NATIVE_PLANS
from netnslab.state_plans import Scene
from netnslab.topology_file import load

ROUTES = [kind for kind in NATIVE_PLANS if not kind.startswith(("allowed-ips", "wireguard"))]


@pytest.mark.parametrize("kind", ROUTES)
def test_a_route_is_put_back_as_flannel_writes_it(kind):
    """Also where a daemon has put it back meanwhile; what was added is deleted."""
    lab = Lab("none", load("flannel-native"), is_owner=False)
    change = NATIVE_PLANS[kind](Scene(lab=lab, victim=lab.topology.nodes["c1"], peer=lab.topology.nodes["d1"]))
    (undo,) = change.undo

    if kind.startswith("pod-route-diverted"):
        (do,) = change.do
        assert [f"route del {line.removeprefix('route add ')}" for line in do.lines] == [*undo.lines]
    else:
        assert "route replace 10.42.0.0/16 dev flannel-wg scope link proto boot" == undo.lines[-1]


def test_each_form_has_the_code_of_its_fault():
    """The last word is the form."""
    assert "allowed-ips-stolen" == FORMS["allowed-ips-stolen-half"]
    assert "cluster-route-missing" == FORMS["cluster-route-missing-elsewhere"]
    assert "cluster-route-missing" not in FORMS
