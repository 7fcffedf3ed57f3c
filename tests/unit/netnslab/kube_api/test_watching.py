"""One watch, without a connection."""

from itertools import islice

from netnslab.kube_api.objects import name_of
from netnslab.kube_api.request import decode
from netnslab.kube_api.resources import NODES
from netnslab.kube_api.store import Store
from netnslab.kube_api.watching import watch


def _store(**options):
    store = Store((NODES,), **options)
    for name in ("b1", "b2"):
        store.create(NODES, {"metadata": {"name": name}})
    return store


def _watch(store, query, **options):
    request = decode("GET", f"/api/v1/nodes?watch=true&{query}", store.resources)
    return watch(store, request, lambda: True, **options)


def _label(store, name, labels):
    store.edit(NODES, name, "", lambda before: {**before, "metadata": {"name": name, "labels": labels}})


def _told(events):
    return [(kind, name_of(item)) for kind, item in events]


def test_initial_events_end_with_a_bookmark_that_says_so():
    """So an informer knows that it has everything."""
    *added, (kind, bookmark) = islice(_watch(_store(), "sendInitialEvents=true&allowWatchBookmarks=true"), 3)

    assert [("ADDED", "b1"), ("ADDED", "b2")] == _told(added)
    assert ("BOOKMARK", "Node", "true") == (
        kind,
        bookmark["kind"],
        bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"],
    )


def test_a_watch_goes_on_from_its_version():
    """With each change since, and those to come."""
    store = _store()
    since = store.version
    _label(store, "b1", {"a": "1"})
    watching = _watch(store, f"resourceVersion={since}")
    first = next(watching)
    store.delete(NODES, "b1")
    store.create(NODES, {"metadata": {"name": "b3"}})

    assert [("MODIFIED", "b1"), ("DELETED", "b1"), ("ADDED", "b3")] == _told([first, *islice(watching, 2)])


def test_without_a_version_there_is_first_what_there_is():
    """As older clients watch."""
    assert [("ADDED", "b1"), ("ADDED", "b2")] == _told(islice(_watch(_store(), "resourceVersion=0"), 2))


def test_what_a_selector_loses_is_deleted_and_what_it_gains_is_added():
    """Whatever else happens to it is not told."""
    store = _store()
    watching = _watch(store, f"resourceVersion={store.version}&labelSelector=a=1")
    for labels in ({"b": "2"}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}):
        _label(store, "b1", labels)

    assert [("ADDED", "b1"), ("MODIFIED", "b1"), ("DELETED", "b1")] == _told(islice(watching, 3))


def test_a_version_that_is_forgotten_ends_the_watch_with_410():
    """The client lists again."""
    store = _store(history=1)
    ((kind, status),) = _watch(store, f"resourceVersion={store.version - 2}")

    assert ("ERROR", 410, "Expired") == (kind, status["code"], status["reason"])


def test_bookmarks_carry_the_version_on_where_nothing_happens():
    """To those that want them."""
    store = _store()
    since = store.version
    ((kind, bookmark),) = islice(_watch(store, f"resourceVersion={since}&allowWatchBookmarks=1", bookmark_s=0.01), 1)

    assert ("BOOKMARK", str(since)) == (kind, bookmark["metadata"]["resourceVersion"])
    assert "annotations" not in bookmark["metadata"]


def test_a_watch_ends_in_its_time():
    """`timeoutSeconds` of the client's."""
    store = _store()

    assert [] == list(_watch(store, f"resourceVersion={store.version}&timeoutSeconds=0"))
