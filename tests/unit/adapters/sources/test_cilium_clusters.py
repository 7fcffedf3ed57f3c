"""Other clusters, as Cilium's agent has them in its health."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.cilium_clusters import MAX_CLUSTERS, MAX_STATUS_CHARACTERS, parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import CiliumCluster, CiliumClusters

WEST = {
    "name": "west",
    "connected": True,
    "ready": False,
    "status": "etcd: 1/1 connected, has-quorum=true",
    "num-failures": 3,
    "num-nodes": 4,
    "config": {"required": True, "retrieved": True, "cluster-id": 2},
}


def answer(*clusters):
    """The answer with these clusters, and with what else is in it."""
    mesh = {"clusters": list(clusters), "num-global-services": 3}
    return json.dumps({"cilium": {"state": "Ok"}, "controllers": [{"name": "x"}], "cluster-mesh": mesh}).encode()


def test_clusters_are_read_by_name_with_the_agents_own_words():
    """Connected is not ready: what is there may not have been read."""
    told = parse(answer({**WEST, "name": "z"}, WEST))

    assert ["west", "z"] == [each.name for each in told.clusters]
    assert CiliumCluster(
        name="west", is_connected=True, is_ready=False, status="etcd: 1/1 connected, has-quorum=true", failures=3
    ) == told.cluster("west")
    assert told.cluster("east") is None


@pytest.mark.parametrize("data", [b"{}", b'{"cluster-mesh":null}', b'{"cluster-mesh":{"clusters":null}}'])
def test_without_cluster_mesh_there_are_none(data):
    """Most clusters have none."""
    assert CiliumClusters() == parse(data)


def test_a_status_is_text_for_a_terminal():
    """Whatever the agent puts into it."""
    (told,) = parse(answer({"name": "west", "status": "a\x1b[31m\nb" + "c" * MAX_STATUS_CHARACTERS})).clusters

    assert told.status.startswith("a [31m b")
    assert MAX_STATUS_CHARACTERS >= len(told.status)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (answer({}), "name"),
        (answer({"name": "a b"}), "is no name"),
        (answer({"name": "west", "connected": "yes"}), "Expected `bool`"),
        (answer(*({"name": f"n{number}"} for number in range(MAX_CLUSTERS + 1))), "more than"),
    ],
)
def test_other_answers_are_refused(data, reason):
    """With the place in them."""
    with pytest.raises(DecodeError, match="cilium agent's health") as refused:
        parse(data)

    assert reason in refused.value.reason


@given(st.binary(max_size=60))
def test_no_bytes_make_it_fail_otherwise(data):
    """Clusters, or a reason."""
    with contextlib.suppress(DecodeError):
        parse(data)
