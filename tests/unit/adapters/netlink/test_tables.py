import pytest

from meshwatchd.adapters.netlink import compact, objects, tables
from meshwatchd.adapters.netlink.message import NLM_F_APPEND, NLM_F_REPLACE
from meshwatchd.adapters.netlink.tables import DeviceDown, DeviceGone, Gone, Put, Table
from tests.support.fake_rtnl import FakeRoute, fdb_body, link_body, neighbour_body, packed

MAC = bytes((2, 0, 0, 0, 0, 1))
NET = "9.0.0.0/8"
A, B, C = (packed(compact.pack_route, FakeRoute(dst=NET, index=index).body()) for index in (1, 2, 3))
KEY = A[0]


def routes(*dumped):
    """A table of routes as after a dump."""
    table = Table(tables.apply_to_routes, join=tables.join_routes)
    table.begin()
    for each in dumped:
        table.add(each)
    table.finish()
    return table


def put(one, flags=0):
    """A notification of an addition."""
    return Put(one[0], one[1], flags)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ([], put(A), [A]),
        ([A], put(A), [A]),
        ([A], put(B, NLM_F_APPEND), [A, B]),
        ([A], put(B), [B, A]),
        ([A, B], put(C, NLM_F_REPLACE), [C, B]),
        ([A, B], put(A, NLM_F_REPLACE), [A, B]),
        ([A, B], Gone(*A), [B]),
        ([A], Gone(*B), [A]),
        ([A, B], DeviceDown(1), [B]),
        ([A, B], DeviceGone(2), [A]),
    ],
    ids=["first", "again", "append", "prepend", "replace", "same", "delete", "unknown", "down", "gone"],
)
def test_ipv4_routes_of_one_key_keep_the_kernels_order(before, change, after):
    """The first one counts, and is the one that is replaced."""
    table = routes(*before)

    table.change(change)

    assert tuple(value for _, (value,) in after) == table.entries.get(KEY, ())


def test_an_ipv6_route_is_the_set_of_its_next_hops():
    """Told one by one, dumped together, in an order that means nothing."""
    first, second = (
        packed(compact.pack_route, FakeRoute(dst="fd42::/64", index=index, via="fe80::1").body()) for index in (2, 3)
    )
    key, (one,) = first
    other = second[1][0]
    table = routes()

    table.change(put(second))
    table.change(put(first, NLM_F_APPEND))
    both = table.entries[key]
    table.change(put(second, NLM_F_REPLACE))

    assert tuple(sorted((one, other))) == both == routes(first, second).entries[key]
    assert (other,) == table.entries[key]


def test_a_route_of_several_hops_stays_while_one_of_them_does():
    """The kernel marks the dead one; local routes outlive the going down, not the end of a device."""
    several = packed(compact.pack_route, FakeRoute(dst=NET, index=1, also=(2,)).body())
    local = packed(compact.pack_route, FakeRoute(dst="10.2.0.1/32", index=1, table=255, kind=2).body())
    table = routes(several, local)

    table.change(DeviceDown(1))
    down = set(table.entries)
    table.change(DeviceGone(1))

    assert {several[0], local[0]} == down
    assert {several[0]} == set(table.entries)


def test_ipv6_routes_go_with_a_deleted_device():
    """The other next hops of a route stay."""
    one, other = (packed(compact.pack_route, FakeRoute(dst="fd42::/64", index=index).body()) for index in (2, 3))
    table = routes(one, other)

    table.change(DeviceDown(2))
    kept = len(table.entries[one[0]])
    table.change(DeviceGone(2))

    assert (2, other[1]) == (kept, table.entries[one[0]])


def test_neighbours_and_fdb_entries_go_with_a_deleted_device_only():
    """When a device goes down the kernel tells of each neighbour, and keeps FDB entries."""
    neighbour = packed(compact.pack_neighbour, neighbour_body(6, "10.42.1.0", MAC))
    entry = packed(compact.pack_fdb, fdb_body(6, MAC, "192.168.50.11"))
    link = packed(objects.pack_link, link_body(6, "flannel.1"))
    for apply, one in (
        (tables.apply_to_neighbours, neighbour),
        (tables.apply_to_fdb, entry),
        (tables.apply_to_devices, link),
    ):
        table = Table(apply)
        table.change(put(one))
        table.change(DeviceDown(6))
        table.change(DeviceGone(7))
        assert {one[0]: one[1]} == table.entries
        table.change(DeviceGone(6))
        assert {} == table.entries


def test_a_failed_dump_leaves_what_was_known():
    """And what happened while it was tried."""
    table = routes(A)
    table.begin()
    table.add(B)
    table.change(put(C, NLM_F_APPEND))
    table.abandon()

    assert (*A[1], *C[1]) == table.entries[KEY]


def test_the_last_word_on_a_key_is_the_kernels():
    """Whether the dump was before or after what is told."""
    table = routes()
    for dumped in ([], [A], [B]):
        table.begin()
        table.change(put(A))
        table.change(put(B, NLM_F_REPLACE))
        for each in dumped:
            table.add(each)
        table.finish()
        assert B[1] == table.entries[KEY]
        assert not table.is_doubtful


def test_a_replacement_that_is_undone_during_a_dump_casts_doubt():
    """The dump may show another route of that key, which must not be taken for the replaced one."""
    table = routes(A, B)
    table.begin()
    table.change(put(C, NLM_F_REPLACE))
    table.change(Gone(*C))
    table.add(B)
    table.finish()

    assert table.is_doubtful


def test_a_deletion_during_a_dump_by_counting_casts_doubt():
    """The kernel counts past the entry that moved up; the next dump settles it."""
    table = Table(tables.apply_to_neighbours, is_counted=True)
    one = packed(compact.pack_neighbour, neighbour_body(6, "10.42.1.0", MAC))
    table.begin()
    table.change(Gone(*one))
    table.finish()
    doubtful = table.is_doubtful
    table.begin()
    table.add(one)
    table.add(one)
    table.finish()

    assert (True, False) == (doubtful, table.is_doubtful)
    assert {one[0]: one[1]} == table.entries
