import ipaddress

from netnslab.bench.links import PREFIX_BITS, Lane, LinkKind, drop_rules, numbered


def test_addresses_are_different_and_on_the_link():
    """Both ends of 4 000 sessions, and neither is the link's own address."""
    addresses = [*numbered(1, 4_000), *numbered(2, 4_000)]
    lane = Lane(kind=LinkKind.VETH)
    network = ipaddress.ip_network(f"{lane.local}/{PREFIX_BITS}", strict=False)

    assert 8_000 == len(set(addresses))
    assert all(ipaddress.ip_address(address) in network for address in addresses)
    assert not {lane.local, lane.remote} & set(addresses)


def test_a_tunnel_dies_with_what_carries_it():
    """A fault below a tunnel gives no error to those above it."""
    assert ["test3", "under3", "under3"] == [Lane(kind=kind, index=3).lowest for kind in LinkKind]


def test_lanes_do_not_share_addresses():
    """Twenty-five links side by side between the same two machines."""
    lanes = [Lane(kind=LinkKind.VXLAN, index=index) for index in range(25)]
    ends = [end for lane in lanes for end in lane.ends("a", "b")]

    assert 50 == len({end.address for end in ends}) == len({end.under for end in ends})


def test_both_directions_are_dropped_in_one_transaction():
    """Ingress and egress of the same device, in one table that healing deletes."""
    text = drop_rules("test0")

    assert 1 == text.count("table netdev bench")
    assert 'hook ingress device "test0"' in text
    assert 'hook egress device "test0"' in text
