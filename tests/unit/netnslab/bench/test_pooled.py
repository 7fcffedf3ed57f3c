from netnslab.bench.links import Lane, LinkKind
from netnslab.bench.pooled import MEMBERS, address, far_protocols, near_protocols

LANE = Lane(kind=LinkKind.VETH)


def test_every_node_has_a_bgp_session_that_follows_bfd():
    """The near end's neighbours are the far ends, with the numbers of both swapped."""
    near = near_protocols(LANE)
    for number in range(1, len(MEMBERS) + 1):
        assert f"neighbor {address(number, LANE)} as {65_000 + number}; multihop 3; bfd on;" in near
        assert f"neighbor {LANE.local} as 65000; multihop 3; bfd on;" in far_protocols(number, LANE)


def test_only_one_node_announces_the_destination():
    """Otherwise a second node would take over before the standby."""
    announcing = [number for number in range(1, len(MEMBERS) + 1) if "blackhole" in far_protocols(number, LANE)]

    assert [1] == announcing


def test_nodes_are_reached_over_each_lane_by_an_address_of_its_own():
    """Twenty-five lanes to four nodes."""
    lanes = [Lane(kind=LinkKind.VETH, index=index) for index in range(25)]

    assert 100 == len({address(number, lane) for lane in lanes for number in range(1, 5)})
