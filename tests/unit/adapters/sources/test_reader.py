"""All sources together, against programs and files that stand for the real ones."""

import asyncio

import pytest

from meshwatchd.adapters.sources import SourceReader
from meshwatchd.adapters.sources.reader import AGENT_INTERVAL_NS, ALONE_INTERVAL_NS, CILIUM_INTERVAL_NS, Places
from meshwatchd.adapters.sources.slot import ENDED_NS
from meshwatchd.model.sources import CiliumClusters, KiloMetrics, Sources
from tests.support import node_states
from tests.support.local_server import Answers, ok, serving
from tests.unit.adapters.sources import (
    test_cilium_clusters,
    test_cilium_nodes,
    test_flannel_files,
    test_kilo_graph,
    test_kilo_metrics,
)
from tests.unit.adapters.sources import test_quick_file as quick

GRAPH, METRICS = test_kilo_graph.WHOLE.encode(), test_kilo_metrics.WHOLE.encode()
NODES = test_cilium_nodes.answer(test_cilium_nodes.A1)


class Clock:
    """Time as the test says."""

    now = 0

    def __call__(self):
        """The time."""
        return self.now


def places_in(folder, kilo=("127.0.0.1", 1)):
    """Everything below a folder; nobody listens on port 1."""
    return Places(
        kilo=kilo,
        cilium=folder / "cilium.sock",
        subnet_files=(folder / "subnet.env",),
        configuration_files=(folder / "k3s.json", folder / "net-conf.json"),
        quick_directory=folder / "wireguard",
    )


@pytest.fixture
def folder(tmp_path):
    """Files of flannel and wg-quick."""
    (tmp_path / "wireguard").mkdir()
    (tmp_path / "wireguard" / "wg0.conf").write_text(quick.WHOLE)
    (tmp_path / "subnet.env").write_text(test_flannel_files.WHOLE)
    (tmp_path / "net-conf.json").write_text('{"Backend":{"Type":"vxlan"}}')
    return tmp_path


def kilo(graph=GRAPH):
    """Kilo's agent."""
    return Answers(lambda request: ok(METRICS if b"/metrics" in request else graph))


def test_a_node_without_any_of_it_has_nothing_to_tell(tmp_path):
    """And nothing is wrong with that."""
    assert Sources() == asyncio.run(SourceReader(places_in(tmp_path)).refresh())


def test_everything_is_read_at_once(folder):
    """Two agents and four files."""

    async def run():
        async with serving(kilo()) as address, serving(Answers(ok(NODES)), folder / "cilium.sock"):
            return await SourceReader(places_in(folder, address)).refresh()

    told = asyncio.run(run())

    assert () == told.rejected
    assert node_states.graph() == told.kilo
    assert KiloMetrics(is_leader=True, nodes=6, reconciles=12345) == told.kilo_metrics
    assert ["a1"] == [node.name for node in told.cilium.nodes]
    assert ("10.42.1.0/24", "vxlan") == (told.flannel.pod_cidr, told.flannel_backend.backend)
    assert ["wg0"] == [file.device for file in told.quick]


def test_each_source_is_rejected_by_itself_and_keeps_its_last_good_value(folder):
    """Everything turns bad at once: each is named, and nothing is lost."""
    clock, answers, cilium = Clock(), kilo(), Answers(ok(NODES))

    async def run():
        async with serving(answers) as address, serving(cilium, folder / "cilium.sock"):
            reader = SourceReader(places_in(folder, address), clock=clock)
            good = await reader.refresh()
            answers.answer, cilium.answer = ok(b"<html>"), ok(b"<html>")
            for path in (folder / "subnet.env", folder / "net-conf.json", folder / "wireguard" / "wg0.conf"):
                path.write_bytes(b"\xff")
            return good, await reader.refresh(is_urgent=True), reader.sources

    good, bad, last = asyncio.run(run())

    assert bad is last
    assert [
        "cilium agent",
        "kilo graph",
        "kilo metrics",
        str(folder / "net-conf.json"),
        str(folder / "subnet.env"),
        str(folder / "wireguard" / "wg0.conf"),
    ] == sorted((each.source for each in bad.rejected), key=lambda source: (source.startswith("/"), source))
    assert (good.kilo, good.cilium, good.flannel) == (bad.kilo, bad.cilium, bad.flannel)
    assert (good.kilo_metrics, good.flannel_backend, good.quick) == (bad.kilo_metrics, bad.flannel_backend, bad.quick)


def test_prefixes_end_with_the_agents_that_said_them(folder):
    """Names and roles stay; by prefixes traffic is steered."""
    clock = Clock()

    async def run():
        async with serving(kilo()) as address, serving(Answers(ok(NODES)), folder / "cilium.sock"):
            reader = SourceReader(places_in(folder, address), clock=clock)
            await reader.refresh()
        told = [await reader.refresh(is_urgent=True)]
        clock.now = ENDED_NS
        return [*told, await reader.refresh(is_urgent=True)]

    soon, late = asyncio.run(run())

    assert node_states.graph() == soon.kilo
    assert [each.name for each in soon.kilo.nodes] == [each.name for each in late.kilo.nodes]
    assert {""} == {each.pod_cidr for each in (*late.kilo.nodes, *late.cilium.nodes)}
    assert {""} != {each.pod_cidr for each in soon.cilium.nodes}


def test_agents_are_not_asked_before_it_is_time(folder):
    """But all of them when something has changed."""
    clock, answers = Clock(), kilo()

    async def run():
        counts = []
        async with serving(answers) as address:
            reader = SourceReader(places_in(folder, address), clock=clock)
            for clock.now, is_urgent in (
                (0, False),
                (AGENT_INTERVAL_NS - 1, False),
                (AGENT_INTERVAL_NS, False),
                (1, True),
            ):
                await reader.refresh(is_urgent=is_urgent)
                counts.append(len(answers.asked))
        return counts

    assert [2, 2, 4, 6] == asyncio.run(run())


def test_files_of_wg_quick_come_and_go(folder):
    """A file that is gone is forgotten; one that appears is read at once."""

    async def run():
        reader = SourceReader(places_in(folder))
        await reader.refresh()
        (folder / "wireguard" / "wg0.conf").rename(folder / "wireguard" / "wg7.conf")
        return await reader.refresh()

    assert ["wg7"] == [file.device for file in asyncio.run(run()).quick]


def test_other_clusters_are_asked_for_often_only_where_there_are_any(folder):
    """The answer has all that Cilium's agent does in it; a cluster by itself may be joined with others one day."""
    clock, alone = Clock(), True
    two = test_cilium_nodes.answer(test_cilium_nodes.A1, test_cilium_nodes.element("west/w1", "10.9.0.1", 9))

    def answer(request):
        if b"/v1/healthz" in request:
            return ok(
                test_cilium_clusters.answer() if alone else test_cilium_clusters.answer(test_cilium_clusters.WEST)
            )
        return ok(NODES if alone else two)

    async def run(times):
        agent = Answers(answer)
        async with serving(agent, folder / "cilium.sock"):
            reader = SourceReader(places_in(folder), clock=clock)
            for clock.now in times:
                told = await reader.refresh()
        return sum(b"/v1/healthz" in request for request in agent.asked), told.cilium_clusters

    steps = [number * CILIUM_INTERVAL_NS for number in range(9)]
    assert (1, CiliumClusters()) == asyncio.run(run(steps))
    assert 2 == asyncio.run(run([*steps, ALONE_INTERVAL_NS + CILIUM_INTERVAL_NS]))[0]
    alone = False
    count, told = asyncio.run(run(steps))
    assert (len(steps), ["west"]) == (count, [each.name for each in told.clusters])
