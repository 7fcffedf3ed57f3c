"""What scripts/bootstrap installs is what the lab asks for."""

from __future__ import annotations

import re

from netnslab.backends import debian_uml, vm
from tests.meta.tree import ROOT

SCRIPT = (ROOT / "scripts" / "bootstrap").read_text(encoding="utf-8")


def _listed(variable: str) -> dict[str, str]:
    match = re.search(rf"^{variable}='([^']*)'", SCRIPT, re.MULTILINE)
    assert match, f"scripts/bootstrap sets no {variable}"
    return dict(pair.split("=") for pair in match.group(1).split())


def test_guest_tools_are_those_the_vm_backend_needs():
    """A tool the vm backend misses on a fresh machine would turn up as a skipped suite."""
    assert dict(vm.TOOLS) == _listed("vm_tools")


def test_tools_that_make_a_kernel_are_those_it_needs():
    """As above, for the kernel that is a program."""
    assert dict(debian_uml.TOOLS) == _listed("program_tools")


def test_mesh_tools_hold_what_every_lab_uses():
    """Namespaces, firewall rules, WireGuard of both kinds, and ping's opinion."""
    assert {"ip", "nft", "ping", "wg", "wireguard-go"} <= set(_listed("mesh_tools"))


def test_the_real_program_below_a_mesh_is_a_tool_of_the_lab():
    """Its package starts no service: the unit is a template."""
    assert {"nebula": "nebula", "nebula-cert": "nebula"} == _listed("underlay_tools")


def test_routing_daemons_come_without_their_services():
    """A machine that tests must not speak BGP from then on."""
    assert {"bird": "bird2", "birdc": "bird2", "vtysh": "frr"} == _listed("routing_tools")
    assert 'need_tools_without_services "$routing_tools" bird frr' in SCRIPT


def test_the_judge_of_metrics_comes_without_its_server():
    """Debian's package starts Prometheus; a machine that tests must not serve port 9090 from then on."""
    assert {"promtool": "prometheus"} == _listed("metrics_tools")
    assert 'need_tools_without_services "$metrics_tools" prometheus' in SCRIPT
