"""A mesh, a cluster and an API for the tests of meshwatchd-kube: b1 leads the cloud, b2 could, and a1 leads onprem.

look(diverted="a1-b2", reports=accusing("b1"))     # what all decisions begin with
with served() as cluster: ...                      # the same Nodes behind a real HTTP API
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path as FilePath

from meshwatchkube.cluster import Address, Cluster, Metadata, Node, NodeSpec, NodeState
from meshwatchkube.look import Look
from meshwatchkube.memory import Memory
from meshwatchkube.mesh import Member, Mesh, Pair, Path, Report
from netnslab.kube_api.objects import ApiError, Object, Resource
from netnslab.kube_api.request import Request
from netnslab.kube_api.resources import EVENTS, LEASES, NODES
from netnslab.kube_api.server import KubeApi
from netnslab.kube_api.store import Store
from netnslab.waiting import wait_until

CUT = 0
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
NOW_S = 1_795_224_000

PLACES = {"a1": "onprem", "a2": "onprem", "a3": "onprem", "b1": "cloud", "b2": "cloud", "b3": "cloud"}
PATHS = ("a1-b1", "a2-b1", "a1-b2", "a2-b2", "a1-b1")
"""By rank: the leaders' own, and the standbys while b1 leads."""


def address(name: str) -> str:
    """Of a node, in both pictures."""
    return f"10.2.{ord(name[0])}.{name[1:]}"


def report(culprit: str, *, by: str, fault: str = "overlay-new-flows", age_s: int = 0, **changes: str) -> Report:
    """What a node says of another one, for the traffic between the two locations."""
    location = PLACES[by]
    fields = {
        "towards": "cloud" if location == "onprem" else "onprem",
        "words": f"new flows die at {culprit}",
        **changes,
    }
    return Report(reporter=by, location=location, fault=fault, culprit=culprit, age_ns=age_s * SECOND, **fields)


def accusing(culprit: str, *reporters: str) -> tuple[Report, ...]:
    """A neighbour of b1 has seen its overlay break, unless others are named."""
    return tuple(report(culprit, by=each) for each in reporters or ("b3",))


def pair(
    *, active: str = "a1-b1", paths: Sequence[str] = PATHS, bad: Sequence[str] = (), at: str = "a3", culprit: str = ""
) -> Pair:
    """The pair of locations as a node of onprem or the cloud sees it; bad paths by their relays."""
    ranks = range(len(paths))
    in_use = max(rank for rank in ranks if paths[rank] == active and (rank or active == paths[0])) if active else 0
    in_use = 0 if active == paths[0] else in_use
    return Pair(
        location=PLACES[at],
        remote="cloud" if PLACES[at] == "onprem" else "onprem",
        culprit=culprit,
        paths=tuple(
            Path(
                rank=rank,
                relays=tuple(paths[rank].split("-")),
                is_bad=paths[rank] in bad,
                is_active=rank == in_use,
                is_local_relay=at in paths[rank].split("-"),
            )
            for rank in ranks
        ),
    )


def mesh(
    *,
    at: str = "a3",
    active: str = "a1-b1",
    paths: Sequence[str] = PATHS,
    bad: Sequence[str] = (),
    reports: Sequence[Report] = (),
    leaders: Sequence[str] = ("a1", "b1"),
    pins: Sequence[str] = (),
    is_reliable: bool = True,
    is_drained: bool = False,
    silent: Sequence[str] = (),
    culprit: str | None = None,
    troubled: Sequence[str] = tuple(PLACES),
) -> Mesh:
    """What the daemon of a node shows; whom its verdict names is by default the first that a report names."""
    if culprit is None:
        culprit = next((each.culprit for each in reports), "")
    members = {
        name: Member(
            name=name,
            location=place,
            role="leader" if name in leaders else "member",
            address=address(name),
            heard_ago_ns=(10 * MINUTE if name in silent else SECOND),
            severity="warning" if name in troubled else "ok",
            report_age_ns=10 * MINUTE if name in silent else SECOND,
        )
        for name, place in PLACES.items()
    }
    return Mesh(
        node=at,
        location=PLACES[at],
        is_reliable=is_reliable,
        pairs=(pair(active=active, paths=paths, bad=bad, at=at, culprit=culprit),),
        reports=tuple(reports),
        members=members,
        pins=tuple(pins),
        is_drained=is_drained,
    )


def node(name: str, *, version: str = "7", **annotations: str) -> Node:
    """A Node as Kilo's agent and the kubelet leave it; the agent's last word does not age within a test."""
    kilo = {
        "kilo.squat.ai/key": "k" * 44,
        "kilo.squat.ai/endpoint": f"198.51.100.{name[1:]}:51820",
        "kilo.squat.ai/last-seen": str(NOW_S + 86_400),
        "kilo.squat.ai/internal-ip": f"{address(name)}/24",
    }
    return Node(
        metadata=Metadata(
            name=name,
            resource_version=version,
            annotations=kilo | {f"kilo.squat.ai/{key.replace('_', '-')}": value for key, value in annotations.items()},
        ),
        spec=NodeSpec(pod_cidr="10.244.1.0/24"),
        status=NodeState(addresses=(Address(type="InternalIP", address=address(name)),)),
    )


def cluster(*changed: Node, is_fresh: bool = True, is_writer: bool = True) -> Cluster:
    """All six Nodes, some of them otherwise."""
    nodes = {name: node(name) for name in PLACES} | {each.name: each for each in changed}
    return Cluster(nodes=nodes, is_fresh=is_fresh, is_writer=is_writer)


def look(seen: Mesh | None = None, known: Cluster | None = None, memory: Memory | None = None, at_s: int = 0) -> Look:
    """One look, so many seconds after the first."""
    return Look(
        mesh=seen or mesh(),
        cluster=known or cluster(),
        memory=memory or Memory(),
        now=at_s * SECOND + MINUTE,
        now_s=NOW_S + at_s,
    )


@dataclass(kw_only=True)
class Served:
    """An API that is served, and what it is made to do.

    Attributes:
        kubeconfig: a file that leads there.
        asked: how often each verb of each resource was asked for.
        failing: HTTP statuses by (verb, plural), "*" for any; CUT ends the connection.
        delay_s: before each answer.
        bodies: of what was written, in order.
    """

    store: Store
    kubeconfig: FilePath
    port: int
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)
    failing: dict[tuple[str, str], int] = field(default_factory=dict)
    delay_s: float = 0.0
    bodies: list[Request] = field(default_factory=list)

    def gate(self, request: Request) -> None:
        """Count, wait and refuse."""
        plural = request.resource.plural
        self.asked[request.verb, plural] += 1
        if request.body is not None:
            self.bodies.append(request)
        if self.delay_s:
            time.sleep(self.delay_s)
        for key in ((request.verb, plural), ("*", plural), ("*", "*")):
            code = self.failing.get(key)
            if code == CUT:
                raise ConnectionResetError
            if code is not None:
                raise ApiError(code, f"{request.verb} {plural} is refused by the test")

    def node(self, name: str) -> Object:
        """A Node as it is."""
        return self.store.get(NODES, name)

    def annotations(self, name: str) -> Mapping[str, object]:
        """Of a Node."""
        found: Mapping[str, object] = json.loads(json.dumps(self.node(name)))["metadata"].get("annotations", {})
        return found

    def events(self) -> list[tuple[str, str]]:
        """Reason and Node of each Event."""
        items, _ = self.store.list(EVENTS, lambda _: True)
        decoded = json.loads(json.dumps(items))
        return [(each["reason"], each["involvedObject"]["name"]) for each in decoded]


def node_object(name: str) -> Object:
    """The same Node as `node` makes, as the API has it."""
    known = node(name)
    return {
        "metadata": {"name": name, "annotations": dict(known.annotations)},
        "spec": {"podCIDR": known.spec.pod_cidr},
        "status": {"addresses": [{"type": "InternalIP", "address": address(name)}]},
    }


@contextmanager
def served(
    directory: FilePath,
    *,
    names: Sequence[str] = tuple(PLACES),
    more: Sequence[Resource] = (),
    bookmark_s: float = 0.2,
    history: int = 4096,
    listening: socket.socket | None = None,
) -> Iterator[Served]:
    """An API with Nodes in it and more kinds on demand, at a port of this machine or of wherever its socket is from."""
    store = Store((NODES, LEASES, EVENTS, *more), history=history)
    for name in names:
        store.create(NODES, node_object(name))
    listening = listening or listening_socket()[0]
    port = listening.getsockname()[1]
    api = Served(store=store, kubeconfig=write_kubeconfig(directory, port), port=port)
    with KubeApi(store, [listening], gate=api.gate, bookmark_s=bookmark_s):
        yield api


def listening_socket() -> tuple[socket.socket, int]:
    """A socket for an API on this machine, and its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    return listening, listening.getsockname()[1]


def write_kubeconfig(directory: FilePath, port: int) -> FilePath:
    """A file that leads to a port of this machine."""
    path = directory / "kubeconfig"
    path.write_text(kubeconfig_text(f"http://127.0.0.1:{port}"))
    return path


def kubeconfig_text(server: str) -> str:
    """A kubeconfig without any secret; JSON is YAML."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
    )


class Log:
    """Keeps what would be logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, Mapping[str, object]]] = []
        self._lock = threading.Lock()

    def __call__(self, event: str, **fields: object) -> None:
        """One line."""
        with self._lock:
            self.lines.append((event, fields))

    def events(self) -> list[str]:
        """The names, in order."""
        return [event for event, _ in self.lines]


def eventually(claim: object, what: str) -> None:
    """Wait for a predicate."""
    assert callable(claim)
    wait_until(claim, timeout_s=15, what=what, poll_s=0.02)
