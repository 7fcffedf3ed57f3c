"""Six daemons under Kilo with an API in each node's namespace, Kilo played by the annotations, and meshwatchd-kube.

    with kube_stage(directory) as stage:
        stage.kube ...                       # the API: what was asked for, and what it is made to do
        stage.wait_leader("b2")              # Kilo has followed an annotation

The API is one store that listens at 127.0.0.1 of each node, so no fault of the mesh cuts anybody off: what an API that
is away does to healing is made by its gate.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from netnslab.kilo_agents import KiloAgents
from netnslab.kilo_follower import KiloFollower
from netnslab.kube_api.resources import EVENTS, LEASES, NODES, PODS
from netnslab.kube_api.server import KubeApi
from netnslab.kube_api.store import Store
from netnslab.waiting import wait_until
from tests.support.kube import Served, kubeconfig_text
from tests.support.stage import QUICK, Stage, stage

PORT = 16443
WRITERS = ("a1", "a2", "b2")
"""Relays of both locations, as docs/kubernetes.md has it; any of them may hold the Lease."""

SETTINGS: Mapping[str, Mapping[str, object]] = {
    "daemon": {"read_interval": "500ms"},
    "api": {"timeout": "1s", "stale_after": "5s"},
    "lease": {"duration": "6s"},
    "promotion": {
        "mode": "enforce",
        "promote_after": "5s",
        "demote_after": "10s",
        "detour_wait": "10s",
        "settle_wait": "20s",
        "per_day": 20,
    },
    "gating": {"mode": "enforce", "taint_after": "5s", "untaint_after": "5s"},
}
"""Waits of minutes as seconds; settle_wait is as long as the slowest of six daemons takes, and no shorter."""


@dataclass(kw_only=True)
class KubeStage:
    """All of it.

    Attributes:
        mesh: the lab with its daemons and its traffic.
        kube: the API.
        follower: Kilo, played.
    """

    mesh: Stage
    kube: Served
    follower: KiloFollower
    directory: Path

    def wait_leader(self, leader: str, *, timeout_s: float = 120) -> None:
        """Wait until Kilo has been moved to another leader of the cloud."""
        wait_until(
            lambda: self.follower.leaders["cloud"] == leader,
            timeout_s=timeout_s,
            what=f"{leader} to lead the cloud",
            poll_s=0.2,
        )

    def wait_lease(self) -> None:
        """Wait until every process reads the Lease again: after a trouble each tries ever more seldom."""

        def are_well() -> bool:
            of_leases = [[line for line in self.log(node) if line.get("what") == "lease"] for node in WRITERS]
            return all(not lines or lines[-1]["event"] != "api.failed" for lines in of_leases)

        wait_until(are_well, timeout_s=120, what="the API to be asked again", poll_s=0.5)

    def memory(self) -> Mapping[str, object]:
        """What the Lease remembers."""
        lease = json.loads(json.dumps(self.kube.store.get(LEASES, "meshwatchd-kube", "kube-system")))
        found: Mapping[str, object] = json.loads(
            lease["metadata"].get("annotations", {}).get("meshwatchd.io/memory", "{}")
        )
        return found

    def phases(self) -> list[str]:
        """Of the changes that the Lease remembers."""
        changes = json.loads(json.dumps(self.memory())).get("changes", [])
        return [change.get("phase", "detour") for change in changes]

    def taints(self) -> dict[str, list[str]]:
        """Keys of taints by node, of nodes that have any."""
        nodes, _ = self.kube.store.list(NODES, lambda _: True)
        decoded: list[dict[str, dict[str, list[dict[str, str]]]]] = json.loads(json.dumps(nodes))
        return {
            str(node["metadata"]["name"]): [taint["key"] for taint in node["spec"]["taints"]]
            for node in decoded
            if node["spec"].get("taints")
        }

    def log(self, node: str) -> list[Mapping[str, object]]:
        """What the process of a node has logged."""
        path = self.directory / f"kube-{node}.log"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    def logged(self, event: str) -> list[Mapping[str, object]]:
        """Lines of an event, of all processes."""
        return [line for node in WRITERS for line in self.log(node) if line["event"] == event]


@contextmanager
def kube_stage(
    directory: Path, *, writers: Sequence[str] = WRITERS, settings: Mapping[str, Mapping[str, object]] = SETTINGS
) -> Iterator[KubeStage]:
    """Everything, and all well; the processes are running."""
    policy = {**QUICK["policy"], "wait_to_restore": "3s"}
    with stage(directory, settings={"policy": policy}, config="minimal") as mesh, ExitStack() as stack:
        store = Store((NODES, PODS, LEASES, EVENTS))
        kubeconfig = directory / "kubeconfig"
        kubeconfig.write_text(kubeconfig_text(f"http://127.0.0.1:{PORT}"))
        kube = Served(store=store, kubeconfig=kubeconfig, port=PORT)
        sockets = [_listening(mesh, name) for name in mesh.nodes]
        stack.enter_context(KubeApi(store, sockets, gate=kube.gate, bookmark_s=1))
        follower = stack.enter_context(KiloFollower(KiloAgents(mesh.lab), mesh.lab.topology, store))
        config = directory / "kube.toml"
        document = {**settings, "api": {**settings["api"], "kubeconfig": str(kubeconfig)}}
        config.write_text(tomli_w.dumps(document))
        for name in writers:
            stack.enter_context(_running(mesh, name, config, directory / f"kube-{name}.log"))
        made = KubeStage(mesh=mesh, kube=kube, follower=follower, directory=directory)
        wait_until(lambda: kube.asked["watch", "nodes"], timeout_s=30, what="a writer to be elected", poll_s=0.2)
        yield made


@contextmanager
def _running(mesh: Stage, node: str, config: Path, log: Path) -> Iterator[None]:
    command = [sys.executable, "-P", "-m", "meshwatchkube.main", "--config", str(config), "run"]
    with log.open("w", encoding="utf-8") as errors:
        process = mesh.lab.node(node).popen(command, stderr=errors, env={"NODE_NAME": node})
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _listening(mesh: Stage, node: str) -> socket.socket:
    return mesh.lab.node(node).space.call(lambda: socket.create_server(("127.0.0.1", PORT)))
