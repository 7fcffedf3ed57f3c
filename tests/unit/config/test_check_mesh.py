"""A mesh that cannot be one is refused before anything is changed, naming node and key."""

from __future__ import annotations

import base64
import re

import msgspec
import pytest

from meshwatchd.config.check_mesh import check_mesh
from meshwatchd.config.load import load
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings, Settings
from meshwatchd.model.topology import MAX_LOCATIONS, Location, Node
from tests.support import cluster_node


def _key(name: str) -> str:
    return base64.b64encode(name.encode().ljust(32, b"-")).decode()


@pytest.mark.parametrize(
    ("kind", "remedies"),
    [("flannel", []), ("flanel", ['did you mean "flannel"?']), ("x", ["leave it out: the kind is found out"])],
)
def test_a_kind_of_mesh_that_nobody_offers_is_refused(kind, remedies):
    """With the nearest name, if there is one."""
    found = list(check_mesh(Settings(mesh=MeshSettings(profile=kind))))

    assert [("mesh.profile", remedy) for remedy in remedies] == [(each.key, each.remedy) for each in found]


def test_a_trait_that_nobody_knows_is_refused():
    """With its place and the nearest word, if there is one."""
    declared = MeshSettings(profile="wireguard", traits=("star", "pod-adressed", "x"))
    found = list(check_mesh(Settings(mesh=declared)))

    known = "there are star, pod-addressed, without-standby, direct, clustered, host-routed, detour, replaces-routes"
    assert [
        ("mesh.traits[1]", f"no trait of a mesh is called 'pod-adressed'; {known}", 'did you mean "pod-addressed"?'),
        (
            "mesh.traits[2]",
            f"no trait of a mesh is called 'x'; {known}",
            "leave it out, or install the version that knows it",
        ),
    ] == [(each.key, each.problem, each.remedy) for each in found]


def test_no_mesh_is_no_fault():
    """The daemon then only watches."""
    assert [] == list(check_mesh(Settings()))


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        (
            "10.244.5.0/24",
            "10.244.4.0/23",
            "mesh.node[4] (b2).pod_cidr: 10.244.4.0/23 overlaps b1's pod_cidr 10.244.4.0/24",
        ),
        (
            "10.244.5.0/24",
            "10.2.0.8/30",
            "mesh.node[4] (b2).pod_cidr: 10.2.0.8/30 overlaps b1's node_ip 10.2.0.11; give",
        ),
        (
            "10.244.5.0/24",
            "10.2.0.12/31",
            "mesh.node[4] (b2).node_ip: 10.2.0.12 overlaps its own pod_cidr 10.2.0.12/31",
        ),
        (
            "10.244.5.0/24",
            "10.244.5.1/24",
            "mesh.node[4] (b2).pod_cidr: 10.244.5.1/24 has host bits set; write 10.244.5.0/24",
        ),
        (
            "10.244.5.0/24",
            "10.244.5.0",
            "mesh.node[4] (b2).pod_cidr: '10.244.5.0' is no IPv4 prefix; write address/length",
        ),
        ('"10.2.0.12"', '"10.2.0.11"', "mesh.node[4] (b2).node_ip: 10.2.0.11 is also b1's; give each node its own"),
        (
            '"10.2.0.12"',
            '"10.2.0.300"',
            "mesh.node[4] (b2).node_ip: '10.2.0.300' is no IPv4 address; write four numbers",
        ),
        (
            '"10.244.5.0"',
            '"10.244.4.0"',
            "mesh.node[4] (b2).overlay_ip: 10.244.4.0 is also b1's; give each node its own",
        ),
        ('"10.4.0.1"', '"10.4.0.2"', "mesh.node[3] (b1).wireguard_ip: 10.4.0.2 is also a1's; give each node its own"),
        (
            '"10.4.0.1"',
            '"10.4.0.1/16"',
            "mesh.node[3] (b1).wireguard_ip: '10.4.0.1/16' is no IPv4 address; write the address alone",
        ),
        (
            '"10.2.0.12"',
            '"fd00:2::12"',
            "mesh.node[4] (b2).node_ip: 'fd00:2::12' is no IPv4 address; our routes are IPv4; an IPv6 address goes",
        ),
        (
            'overlay_ip = "10.244.5.0"',
            'overlay_ip = "10.244.5.0"\noverlay_ip6 = "10.244.5.0"',
            "mesh.node[4] (b2).overlay_ip6: '10.244.5.0' is no IPv6 address; write it as in fd00:2::11",
        ),
        (
            'overlay_ip = "10.244.5.0"',
            'overlay_ip = "10.244.5.0"\nnode_ip6 = "fd00:2::12/64"',
            "mesh.node[4] (b2).node_ip6: 'fd00:2::12/64' is no IPv6 address; write the address alone: fd00:2::12",
        ),
        (
            'overlay_ip = "10.244.5.0"',
            'overlay_ip = "10.244.5.0"\nnode_ip6 = "::1"',
            "mesh.node[4] (b2).node_ip6: ::1 is no address of a host; write the address others reach",
        ),
    ],
)
def test_addresses_must_be_valid_and_belong_to_one_node(spoil, good, bad, line):
    """An overlap is named from both sides: the longest prefix would silently win."""
    assert line in spoil(good, bad)


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        (
            '"b1"\nst',
            '"a3"\nst',
            "mesh.location[1] (cloud).leader: a3 is in location onprem, not in cloud; name a node of",
        ),
        (
            '"b1"\nst',
            '"b9"\nst',
            "mesh.location[1] (cloud).leader: there is no node 'b9'; name a node of the location: b1, b2, b3",
        ),
        (
            '["b2"]',
            '["a3"]',
            "mesh.location[1] (cloud).standbys[0]: a3 is in location onprem, not in cloud; name a node",
        ),
        (
            '["b2"]',
            '["b1"]',
            "mesh.location[1] (cloud).standbys[0]: b1 is named twice; name the leader and each standby once",
        ),
        ('["b2"]', '["b2", "b2"]', "mesh.location[1] (cloud).standbys[1]: b2 is named twice"),
        (
            'node = "b3"',
            'node = "c1"',
            "daemon.node: 'c1' is no node of the mesh (an empty key means the host name); write one of a1, a2",
        ),
        ('name = "b3"', 'name = "b2"', "mesh.node[5] (b2).name: mesh.node[4] has the same name; give each its own"),
        ('name = "b3"', 'name = "b_3"', "mesh.node[5] (b_3).name: 'b_3' is no name; use letters, digits and hyphens"),
    ],
)
def test_names_must_lead_somewhere(spoil, good, bad, line):
    """Each name is checked where it is written."""
    assert line in spoil(good, bad)


def test_a_node_of_no_location_is_refused(spoil):
    """The declared locations are listed, because a typing error is likely."""
    good = 'location = "cloud"\nnode_ip = "10.2.0.13"'
    line = spoil(good, good.replace("cloud", "clod"))
    assert "mesh.node[5] (b3).location: there is no location 'clod'; declare it as [[mesh.location]], or write" in line


def test_a_standby_without_its_key_is_refused(spoil):
    """The path that needs it is named."""
    line = spoil(f'standby_public_key = "{_key("b2")}"\n', "")
    assert (
        "mesh.node[4] (b2).standby_public_key: is missing, and the standby path between b2 and a1 needs it; "
        "write what `wg pubkey < /var/lib/meshwatchd/standby.key` prints on b2"
    ) == line


@pytest.mark.parametrize("bad", ["abc", "c2hvcnQ=", "not base64 at all!"])
def test_a_key_that_is_none_is_refused_and_not_repeated(spoil, bad):
    """It might be a private key in the wrong place."""
    line = spoil(_key("b2"), bad)
    assert line.startswith("mesh.node[4] (b2).standby_public_key: is not base64 of 32 bytes; write what `wg pubkey")
    assert bad not in line


def test_one_key_on_two_nodes_is_refused(spoil):
    """A copied block; WireGuard would move the peer between them at random."""
    line = spoil(_key("b2"), _key("b1"))
    assert "mesh.node[4] (b2).standby_public_key: b1 has the same; give each node its own" == line


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (
            "198.51.100.22:51830",
            "'198.51.100.22:51830' has a port; write '198.51.100.22'; the port follows from standby.port",
        ),
        ("198.51.100.256", "'198.51.100.256' is no IPv4 address"),
        ("b2_example", "'b2_example' is no name"),
    ],
)
def test_an_endpoint_is_a_host_without_port(spoil, bad, line):
    """The port of a link follows from the numbering of links."""
    assert f"mesh.node[4] (b2).standby_endpoint: {line}" in spoil("198.51.100.22", bad)


def test_a_leader_without_wireguard_address_is_refused(spoil):
    """The WireGuard segment could not be probed."""
    line = spoil('\nwireguard_ip = "10.4.0.1"', "")
    assert "mesh.node[3] (b1).wireguard_ip: is missing, and b1 leads cloud; write what `ip -4 addr show kilo0`" in line


def test_a_path_that_nobody_can_initiate_is_refused(tmp_path, spoil, mesh_toml):
    """Two relays behind NAT wait for each other for ever."""
    one = 'standby_endpoint = "203.0.113.12"'
    other = 'standby_endpoint = "198.51.100.22"'
    between = mesh_toml[mesh_toml.index(one) : mesh_toml.index(other) + len(other)]
    line = spoil(between, between.replace(one, "").replace(other, ""))
    assert (
        "mesh.node[4] (b2).standby_endpoint: is missing at both ends of the standby path between b2 and a2: neither "
        "can initiate; write the address under which one of them is reached from outside"
    ) == line


def test_too_many_paths_between_two_locations_are_refused(tmp_path, spoil, mesh_toml):
    """Three relays against three have nine links; the words are the topology's own."""
    good = mesh_toml[mesh_toml.index('leader = "a1"') : mesh_toml.index('standbys = ["b2"]')]
    bad = good.replace('["a2"]', '["a2", "a3"]')
    line = spoil(good + 'standbys = ["b2"]', bad + 'standbys = ["b2", "b3"]')
    assert "mesh: cloud and onprem have 9 standby links, at most 7 are supported; declare fewer standbys" in line


def test_too_many_locations_are_refused():
    """Each location takes the probe ports of one more pair."""
    locations = tuple(
        Location(name=LocationName(name), leader=NodeName(f"{name}1"))
        for name in (f"l{number}" for number in range(MAX_LOCATIONS + 1))
    )
    nodes = tuple(
        Node(
            name=location.leader,
            location=location.name,
            node_ip=f"10.{index}.0.1",
            pod_cidr=f"10.200.{index}.0/24",
            overlay_ip=f"10.200.{index}.0",
        )
        for index, location in enumerate(locations)
    )
    finding = next(check_mesh(Settings(mesh=MeshSettings(location=locations, node=nodes))))
    assert ("mesh.location", "61 locations need more probe ports than there are") == (finding.key, finding.problem)
    fewer = Settings(mesh=MeshSettings(location=locations[:-1], node=nodes[:-1]))
    assert not [each for each in check_mesh(fewer) if each.key == "mesh.location"]


def test_one_ip6_address_belongs_to_one_node(tmp_path, mesh_toml):
    """A copied block is the usual mistake."""
    path = tmp_path / "meshwatchd.toml"
    text = mesh_toml
    for overlay in ("10.244.4.0", "10.244.5.0"):
        text = text.replace(f'overlay_ip = "{overlay}"', f'overlay_ip = "{overlay}"\nnode_ip6 = "fd00:2::12"')
    path.write_text(text)

    with pytest.raises(ConfigError, match=r"\(b2\)\.node_ip6: fd00:2::12 is also b1's; give each node its own"):
        load(path)


def test_a_mesh_without_ip4_is_refused_as_a_whole(tmp_path, mesh_toml):
    """It would watch and could move nothing: routes, rules and standby links are IPv4."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(re.sub(r'node_ip = "[0-9.]+\.(\d+)"', r'node_ip = "fd00::\1"', mesh_toml))

    with pytest.raises(ConfigError, match=r"mesh\.node: every node_ip is IPv6, .*; a mesh without IPv4 is not supp"):
        load(path)


def test_locations_alone_pin_leaders_of_a_mesh_that_is_found(tmp_path):
    """Their nodes are not declared, so that nothing can be said about them yet."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text('[[mesh.location]]\nname = "cloud"\nleader = "b1"\nstandbys = ["b2"]\n')

    assert "b1" == load(path).mesh.location[0].leader


@pytest.mark.parametrize(
    ("standbys", "refusal"),
    [
        (
            '["a2", "a3", "a4"]',
            "cloud and onprem have 8 standby links; name fewer standbys; at most 7 links are supported",
        ),
        ('["a1"]', r"mesh.location\[1\] \(onprem\).standbys\[0\]: a1 is named twice"),
    ],
)
def test_locations_alone_that_no_mesh_could_have_are_refused(tmp_path, standbys, refusal):
    """A daemon that took them would find all nodes, and then watch nothing."""
    path = tmp_path / "meshwatchd.toml"
    cloud = '[[mesh.location]]\nname = "cloud"\nleader = "b1"\nstandbys = ["b2"]\n'
    path.write_text(f'{cloud}[[mesh.location]]\nname = "onprem"\nleader = "a1"\nstandbys = {standbys}\n')

    with pytest.raises(ConfigError, match=refusal):
        load(path)


def test_nodes_alone_pin_what_is_said_about_them(tmp_path):
    """An address that is found wrongly can be set right for one node."""
    path = tmp_path / "meshwatchd.toml"
    node = 'name = "b3"\nlocation = "cloud"\nnode_ip = "10.2.0.13"\npod_cidr = "10.244.6.0/24"\n'
    path.write_text(f'[[mesh.node]]\n{node}overlay_ip = "10.244.6.0"\n')

    assert "10.2.0.13" == load(path).mesh.node[0].node_ip


def test_half_a_mesh_is_refused_where_the_rest_may_not_be_found(tmp_path):
    """Without discovery nobody completes it."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text('[discovery]\nenabled = false\n[[mesh.location]]\nname = "cloud"\nleader = "b1"\n')
    with pytest.raises(ConfigError, match="there is no node"):
        load(path)


def test_clusters_without_a_tunnel_are_declared_without_addresses_in_it():
    """The first by name stands for a cluster, and has no address on a device that is not the mesh's."""
    declared = cluster_node.settings("e1")

    assert [] == list(check_mesh(declared))
    tunnel = msgspec.structs.replace(declared.mesh, wireguard_device="wg0")
    found = [each.key for each in check_mesh(msgspec.structs.replace(declared, mesh=tunnel))]
    assert ["mesh.node[0] (e1).wireguard_ip", "mesh.node[3] (w1).wireguard_ip"] == found
