"""Which routes are told of many."""

from meshwatchd.adapters.netlink import compact
from meshwatchd.adapters.netlink.choice import MAX_GATEWAYS, MAX_ROUTES, choose, is_default
from tests.support.fake_rtnl import FakeRoute, packed, packed_ip

FLANNEL, ETH0 = 6, 2
BOOT, STATIC, MAIN = 3, 4, 254


def chosen(routes, *, is_near=lambda key, value: False):
    """What is chosen of these routes."""
    entries: dict[bytes, tuple[bytes, ...]] = {}
    for route in routes:
        key, values = packed(compact.pack_route, route.body())
        entries.setdefault(key, ())
        entries[key] += values
    return choose(entries, frozenset((FLANNEL,)), is_near)


def pods(number):
    """The route to the pods of one of very many nodes."""
    return FakeRoute(dst=f"10.{number >> 8}.{number & 255}.0/24", index=FLANNEL, via="10.9.0.1", protocol=STATIC)


def host(number):
    """The route to one of very many nodes."""
    return FakeRoute(dst=f"172.16.{number >> 8}.{number & 255}/32", index=FLANNEL, via="10.9.0.1", protocol=STATIC)


def lengths(found):
    """Prefix lengths of the routes into the mesh's devices."""
    return [compact.length_of(key) for key, _ in found.of_mesh]


def test_neither_nodes_nor_pods_crowd_the_other_out():
    """By key alone, 300 routes to pods would leave no room for a single node's address."""
    found = chosen([pods(number) for number in range(300)] + [host(number) for number in range(300)])

    assert MAX_ROUTES + 1 == len(found.of_mesh)
    assert MAX_ROUTES // 2 == lengths(found).count(32)


def test_few_of_one_kind_leave_their_room_to_the_other():
    """Ten nodes with many pod prefixes each, or many nodes without."""
    assert 247 == lengths(chosen([*map(pods, range(300)), *map(host, range(10))])).count(24)
    assert 247 == lengths(chosen([*map(host, range(300)), *map(pods, range(10))])).count(32)


def test_what_routes_have_in_common_is_counted_over_all_of_them():
    """The leader's gateway stands out whatever the bound on routes."""
    mixed = [pods(number) for number in range(300)]
    mixed += [FakeRoute(dst=f"10.77.{n}.0/24", index=FLANNEL, via=f"10.77.{n}.0", protocol=BOOT) for n in range(100)]

    found = chosen(mixed).gateways

    assert MAX_GATEWAYS == len(found)
    assert (FLANNEL, packed_ip("10.9.0.1"), MAIN, STATIC, 300) == found[0]
    assert [1] * (MAX_GATEWAYS - 1) == [each.routes for each in found[1:]]


def test_kilos_routes_count_whatever_their_device():
    """Where it does not encapsulate they lead into the network card; others' routes there are nobody's business."""
    kilos = [FakeRoute(dst=f"10.2.0.{n}/32", index=ETH0, via="192.168.100.11", protocol=STATIC) for n in (11, 12)]
    boot = FakeRoute(dst="10.3.0.0/24", index=ETH0, via="192.168.100.1", protocol=BOOT)
    connected = FakeRoute(dst="10.4.0.0/24", index=ETH0, protocol=STATIC)
    clouds = FakeRoute(dst="0.0.0.0/0", index=ETH0, via="172.31.1.1", protocol=STATIC)

    found = chosen([*kilos, boot, connected, clouds])

    assert [(ETH0, packed_ip("192.168.100.11"), MAIN, STATIC, 2)] == found.gateways
    assert [] == found.of_mesh


def test_the_default_route_of_the_lowest_metric_is_the_first():
    """NetworkManager gives 100 to a cable and 600 to a radio, whose lowest byte is smaller."""
    routes = [FakeRoute(dst="0.0.0.0/0", index=ETH0, via="10.2.0.1", metric=metric) for metric in (1024, 600, 100)]
    found = chosen(routes)

    assert [100, 600, 1024] == [compact.unpack_route(key, value).metric for key, value in found.defaults]


def test_default_routes_are_told_whatever_their_device():
    """They name the node's network card; those of other tables are somebody's policy."""
    default = FakeRoute(dst="0.0.0.0/0", index=ETH0, via="10.2.0.1")
    other = FakeRoute(dst="0.0.0.0/0", index=ETH0, table=100, via="10.2.0.9", protocol=BOOT)

    found = chosen([default, other, FakeRoute(dst="10.0.0.0/8", index=ETH0, via="10.2.0.1")])

    assert [packed(compact.pack_route, default.body())[0]] == [key for key, _ in found.defaults]
    assert is_default(found.defaults[0][0])
    assert [] == found.of_mesh


def test_what_is_ours_is_near_and_nothing_else():
    """Whoever decides is asked once for each route."""
    found = chosen([pods(1), pods(2)], is_near=lambda key, value: key[12:15] == packed_ip("10.0.1.0")[:3])

    assert (1, 1) == (len(found.near), len(found.of_mesh))
