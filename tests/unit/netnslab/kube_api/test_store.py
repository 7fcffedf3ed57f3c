"""Objects, versions, conflicts, history."""

import pytest

from netnslab.kube_api.objects import ApiError, name_of
from netnslab.kube_api.resources import EVENTS, LEASES, NODES
from netnslab.kube_api.store import Store


def _store(**options):
    store = Store((NODES, EVENTS, LEASES), **options)
    store.create(NODES, {"metadata": {"name": "b1"}, "spec": {"podCIDR": "10.244.4.0/24"}, "status": {"phase": "x"}})
    return store


def _any(_item):
    return True


def test_an_object_gets_kind_identity_and_version():
    """Whatever a client left out, and a later version with each change."""
    store = _store()
    node = store.get(NODES, "b1")

    assert ("v1", "Node") == (node["apiVersion"], node["kind"])
    assert {"name", "uid", "creationTimestamp", "resourceVersion"} == node["metadata"].keys()
    changed = store.edit(NODES, "b1", "", lambda before: {**before, "spec": {}})
    assert int(node["metadata"]["resourceVersion"]) < int(changed["metadata"]["resourceVersion"])
    assert node["metadata"]["uid"] == changed["metadata"]["uid"]
    assert "podCIDR" in node["spec"]  # what has been handed out stays as it was


def test_who_writes_over_an_earlier_version_has_a_conflict():
    """Two read, both write: the second one is told so."""
    store = _store()
    read = store.get(NODES, "b1")
    store.edit(NODES, "b1", "", lambda _: {**read, "spec": {"unschedulable": True}})

    with pytest.raises(ApiError) as refused:
        store.edit(NODES, "b1", "", lambda _: {**read, "spec": {}})
    assert (409, "Conflict") == (refused.value.code, refused.value.reason)
    assert {"unschedulable": True} == store.get(NODES, "b1")["spec"]


def test_a_change_that_changes_nothing_has_no_version():
    """Nobody who watches is woken."""
    store = _store()
    version = store.version
    store.edit(NODES, "b1", "", dict)

    assert version == store.version


def test_status_is_written_by_its_own_url_alone():
    """And by that nothing else but labels and annotations."""
    store = _store()
    wanted = {"metadata": {"name": "b1", "labels": {"a": "1"}}, "spec": {"podCIDR": "other"}, "status": {"phase": "y"}}
    by_status = store.edit(NODES, "b1", "", lambda _: wanted, subresource="status")
    assert ({"a": "1"}, "10.244.4.0/24", "y") == (
        by_status["metadata"]["labels"],
        by_status["spec"]["podCIDR"],
        by_status["status"]["phase"],
    )

    by_main = store.edit(NODES, "b1", "", lambda _: {**wanted, "status": {"phase": "z"}})
    assert ("other", "y") == (by_main["spec"]["podCIDR"], by_main["status"]["phase"])


def test_names_are_taken_once_in_each_namespace():
    """`generateName` makes one that is free; no name is no object."""
    store = _store()
    lease = {"metadata": {"name": "leader"}}
    store.create(LEASES, lease, "one")
    store.create(LEASES, lease, "two")
    first, second = (name_of(store.create(EVENTS, {"metadata": {"generateName": "e-"}}, "one")) for _ in range(2))

    assert first != second
    assert first.startswith("e-")
    for code, reason, item in ((409, "AlreadyExists", lease), (422, "Invalid", {"metadata": {}})):
        with pytest.raises(ApiError) as refused:
            store.create(LEASES, item, "one")
        assert (code, reason) == (refused.value.code, refused.value.reason)
    with pytest.raises(ApiError) as refused:
        store.edit(LEASES, "leader", "one", lambda _: {"metadata": {"name": "other"}})
    assert 422 == refused.value.code


def test_what_is_deleted_is_gone():
    """Once."""
    store = _store()
    store.delete(NODES, "b1")

    assert ([], store.version) == store.list(NODES, _any)
    with pytest.raises(ApiError) as refused:
        store.delete(NODES, "b1")
    assert 404 == refused.value.code


def test_changes_are_those_of_one_kind_after_a_version():
    """With the version up to which there are no others."""
    store = _store()
    since = store.version
    store.create(LEASES, {"metadata": {"name": "leader"}}, "one")
    store.edit(NODES, "b1", "", lambda before: {**before, "spec": {}})
    changes, until = store.changes(NODES, since)

    assert ([since + 2], since + 2) == ([each.version for each in changes], until)
    assert ([], until) == store.changes(NODES, until)


def test_a_history_that_has_forgotten_says_so():
    """Whoever was away for too long lists everything again."""
    store = _store(history=2)
    since = store.version
    for number in range(3):
        store.edit(NODES, "b1", "", lambda before, number=number: {**before, "spec": {"number": number}})

    assert 2 == len(store.changes(NODES, since + 1)[0])
    with pytest.raises(ApiError) as refused:
        store.changes(NODES, since)
    assert (410, "Expired") == (refused.value.code, refused.value.reason)


def test_waiting_ends_with_a_change_or_in_time():
    """Before the time is over only by a change."""
    store = _store()
    store.wait(store.version, 0.01)
    store.wait(store.version - 1, 60)  # has happened already: does not wait
