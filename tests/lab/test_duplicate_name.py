"""A node comes up under the name of another one: the mesh goes on with the first, and names both addresses."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from netnslab import Lab
from netnslab.daemons import Daemons
from netnslab.waiting import pause_until, wait_until
from tests.support.stage import READY_S

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

OTHERS = ("a1", "a2", "b1", "b2")
LOOK_NS = 5_000_000_000


def _duplicates(daemons, node):
    """The culprits that a node names, and its evidence."""
    status: Any = daemons.status(node) or {"findings": ()}
    return [
        (each["culprit"], each["because"][0]) for each in status["findings"] if each["fault"] == "duplicate-node-name"
    ]


def test_the_first_of_two_nodes_with_one_name_stays(tmp_path):
    """b3 calls itself b2, as a cloned machine does; to no other node the mesh changes."""
    with Lab.up("kilo-flannel") as lab, Daemons(lab, tmp_path / "mesh", nodes=OTHERS, config="minimal") as daemons:
        daemons.wait_ready(timeout_s=READY_S)
        began_ns = time.monotonic_ns()
        clone = {"daemon": {"node": "b2"}}
        with Daemons(lab, tmp_path / "clone", nodes=["b3"], config="minimal", settings=clone):
            first, second = (lab.topology.nodes[name].node_ip for name in ("b2", "b3"))
            for node in ("a1", "a2", "b1"):
                ((culprit, because),) = wait_until(
                    partial(_duplicates, daemons, node), timeout_s=READY_S, what=f"the finding of {node}"
                )
                assert "b2" == culprit
                assert f"the one at {first}, and another one at {second}" in because
            pause_until(time.monotonic_ns() + LOOK_NS)
            changes = [each for each in daemons.events(since_ns=began_ns) if each.name == "topology.changed"]
            assert [] == changes
