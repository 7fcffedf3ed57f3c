"""API servers and kubelets over a mesh that is well: which way connections fail, and what is known of the other way."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from netnslab import Lab, state_faults
from netnslab.daemons import Daemons
from netnslab.diagnosis_cells import settings_for
from netnslab.discard import Discards
from netnslab.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

TOLD_S = 60
"""Canaries that were ever answered are down after three seconds, and a side issue has to last for three more."""

Mesh = tuple[Lab, Daemons]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """K3s over wg0: four nodes, each with a kubelet that all other locations ask; c1, d1 and e1 have API servers."""
    with Lab.up("flannel-wg") as lab:
        directory, settings = tmp_path_factory.mktemp("control-plane"), settings_for(lab.topology)
        with Discards(lab, directory), Daemons(lab, directory, settings=settings) as daemons:
            daemons.wait_ready(timeout_s=180)
            yield lab, daemons


def _explained(mesh: Mesh, node: str, other: str) -> Mapping[str, Any]:
    """What `meshwatchctl explain` has of one node's pair with another node, which is a location of its own."""
    said = json.loads(mesh[1].control(node, "--json", "explain").stdout)
    return next(each for each in said["explanations"] if other == each["remote_location"])


def _wait_well(mesh: Mesh) -> None:
    """Until nobody says anything, and every canary is answered."""

    def is_well() -> bool:
        found = [json.loads(mesh[1].control(node, "--json", "status").stdout) for node in mesh[1].nodes]
        is_calm = all(each["is_ready"] and each["severity"] == "ok" for each in found)
        return is_calm and {"up"} == {canary["state"] for each in found for canary in each["canaries"]}

    wait_until(is_well, timeout_s=180, what="a mesh that is well, with canaries that answer", poll_s=0.5)


def _wait_explained(mesh: Mesh, node: str, other: str, *sentences: str) -> Mapping[str, Any]:
    """Until a node's explanation has all sentences."""

    def told() -> Mapping[str, Any] | None:
        found = _explained(mesh, node, other)
        return found if set(sentences) <= set(found["because"]) else None

    return wait_until(told, timeout_s=TOLD_S, what=f"{node} to say: {'; '.join(sentences)}", poll_s=0.5)


@pytest.mark.parametrize(
    ("fault", "silent", "opposite"),
    [
        (
            "kubelet-unreachable",
            "the kubelet of d1 cannot be reached from here: TCP 10250 is not answered (canary kubelet-d1)",
            "nobody in its location reports apiserver-unreachable: if d1 has canaries for API servers here,",
        ),
        (
            "apiserver-unreachable",
            "the API server of d1 cannot be reached from here: TCP 6443 is not answered (canary apiserver-d1)",
            "nobody in its location reports kubelet-unreachable: if d1 has canaries for kubelets here,",
        ),
    ],
    ids=["kubelet", "apiserver"],
)
def test_new_connections_that_fail_one_way_are_named_with_the_way(
    mesh: Mesh, fault: str, silent: str, opposite: str
) -> None:
    """d1 takes none at that port, and reaches the other side's ports itself: c1 says so, d1 names nothing."""
    _wait_well(mesh)
    lab, daemons = mesh
    one_way = f"d1 reports that all is well, and {opposite} the break is one way, from c1 to d1"
    with state_faults.make(lab, fault, "d1", peer="c1"):
        told = _wait_explained(mesh, "c1", "d1", silent, one_way)
        assert (fault, "d1", "warning") == (told["fault"], told["culprit"], told["severity"])
        assert "none" == _explained(mesh, "d1", "c1")["fault"]
        assert one_way in " ".join(daemons.control("c1", "explain").stdout.split())
    _wait_well(mesh)


def test_both_ports_closed_on_the_two_sides_are_a_break_both_ways(mesh: Mesh) -> None:
    """c1 does not reach the kubelet of d1, and d1 not the API server of c1."""
    _wait_well(mesh)
    lab, _ = mesh
    with (
        state_faults.make(lab, "kubelet-unreachable", "d1", peer="c1"),
        state_faults.make(lab, "apiserver-unreachable", "c1", peer="d1"),
    ):
        both = "d1 reports apiserver-unreachable at c1: the other direction is broken as well"
        assert "kubelet-unreachable" == _wait_explained(mesh, "c1", "d1", both)["fault"]
        back = "c1 reports kubelet-unreachable at d1: the other direction is broken as well"
        assert "apiserver-unreachable" == _wait_explained(mesh, "d1", "c1", back)["fault"]
    _wait_well(mesh)


def test_a_tunnel_that_is_broken_one_way_is_told_as_that(mesh: Mesh) -> None:
    """WireGuard's packets from c1 to d1 are lost: both kinds of canaries fall silent, in consequence."""
    _wait_well(mesh)
    lab, _ = mesh
    with state_faults.make(lab, "one-way-break", "c1", peer="d1"):

        def told() -> Mapping[str, Any] | None:
            found = _explained(mesh, "c1", "d1")
            silent = next((each for each in found["because"] if each.startswith("silent in consequence")), "")
            return found if {"kubelet-d1 on d1", "apiserver-d1 on d1"} <= _named(silent) else None

        found = wait_until(told, timeout_s=TOLD_S, what="both canaries to be told as a consequence", poll_s=0.5)
        assert ("one-way-break", "d1", "outbound") == (found["fault"], found["culprit"], found["direction"])
        assert "what c1 sends to d1 is lost, what d1 sends arrives" in found["because"]
    _wait_well(mesh)


def _named(sentence: str) -> set[str]:
    """The canaries of a sentence such as "silent in consequence: canaries A on N, B on N"."""
    return set(sentence.partition(": canaries ")[2].split(", "))
