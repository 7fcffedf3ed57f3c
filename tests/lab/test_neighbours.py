"""Real programs that change the network of a node beside the daemon: what is ours is back within a second.

What is theirs is as they have left it, and no flow is lost but where they alone lose some.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

import pytest

from netnslab import faults
from netnslab.waiting import wait_until
from tests.support.kernel_watch import ours, theirs, watched
from tests.support.systemd_machine import debian_root, install
from tests.support.systemd_mesh import LEADER, SENDER, built_mesh, wait_for_green
from tests.support.systemd_nodes import services

pytestmark = [pytest.mark.timeout(600)]

PACKAGES = ("network-manager", "netplan.io", "firewalld", "ufw", "conntrack")
BACK_S = 1.0
LOST_IN_A_SECOND = 200
"""Flows that begin in a second: a hundred each way."""
POD = "10.244.6.2"
"""Of the other location; what SENDER sends there is diverted by the failover."""

# udev does not run in a container, where /sys cannot be written. Bridges keep their MACs, as a cluster wants it.
WITH_UDEV = """
install -d /etc/systemd/network
printf '[Match]\\nOriginalName=*\\n\\n[Link]\\nMACAddressPolicy=none\\n' >/etc/systemd/network/99-default.link
mount -o remount,rw /sys
mount -o remount,rw /sys/devices
systemctl start systemd-udevd
udevadm trigger --subsystem-match=net
udevadm settle
"""
# A bridge, since not every kernel has dummy devices.
NETDEV = "[NetDev]\nName=theirs0\nKind=bridge\n"
NETWORK = """\
[Match]
Name=theirs0

[Network]
Address=10.99.0.1/24
ConfigureWithoutCarrier=yes

[RoutingPolicyRule]
To=10.98.0.0/16
Table=77
Priority=12345
"""
NETPLAN = """\
network:
  version: 2
  renderer: RENDERER
  bridges:
    theirs0:
      addresses: [10.99.0.1/24]
      routing-policy:
      - {to: 10.98.0.0/16, table: 77, priority: 12345}
"""
# Somebody's file for whatever has no other.
CATCH_ALL = "[Match]\nName=mw* theirs0\n\n[Network]\nAddress=10.97.0.1/32\nConfigureWithoutCarrier=yes\n"

CONFIGURED = "for i in $(seq 50); do networkctl list --no-legend theirs0 | grep -q configured && break; sleep 0.1; done"
ADDRESSED = "for i in $(seq 50); do ip -br -4 addr show theirs0 | grep -q 10.99 && break; sleep 0.1; done"
NO_NETWORKD = "systemctl stop --quiet systemd-networkd.socket systemd-networkd"
EXAMPLE = (
    "install -D -m 644 -t /etc/systemd/networkd.conf.d /usr/share/doc/meshwatchd/examples/50-meshwatchd-networkd.conf"
)
# A standby link that no rule for traffic leads to.
SPARE = """
table=$(ip rule | sed -n 's/.*from all lookup \\(77[0-4].\\) proto.*/\\1/p')
for link in $(ls /sys/class/net | grep ^mw); do
    ip route show table $table | grep -q "dev $link" || echo $link
done | head -n 1
"""
PORTS = ("8472", "51820", "18616-19129", "51830-51893")
BRIDGE = (
    "nmcli connection add type bridge ifname theirs0 con-name theirs ipv4.method manual ipv4.addresses 10.99.0.1/24"
    " ipv6.method disabled ipv4.routing-rules 'priority 12345 from 10.98.0.1 table 77'"
)
FIREWALLD = """
firewall-offline-cmd --quiet --zone=trusted --add-source=10.244.0.0/16
firewall-offline-cmd --quiet --zone=public --add-port=8472/udp
systemctl start firewalld
"""
OPEN = "\n".join(f"firewall-cmd --quiet --permanent --zone=public --add-port={ports}/udp" for ports in PORTS)
ROUTE = f"ip -o route get {POD}"
VPN = """\
[Interface]
PrivateKey = GMDe7NOBZ83rYjCA0xA3yI9W7SzkzbMvMZZaBJKrD1A=
Address = 10.66.0.1/24
[Peer]
PublicKey = 3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08=
AllowedIPs = 0.0.0.0/0
Endpoint = 192.0.2.1:51999
"""
# What flannel does with what it finds of before when K3s starts again: ensureLink, Configure and handleSubnetEvents
# (pkg/backend/vxlan of flannel) set anew what is there. A K3s itself is in no repository of Debian.
FLANNEL_AGAIN = """
ip link set flannel.1 up
bridge fdb show dev flannel.1 | while read -r mac _ node _; do
    bridge fdb replace "$mac" dev flannel.1 dst "$node" self permanent
done
ip -4 neigh show dev flannel.1 nud permanent | while read -r address _ mac _; do
    ip neigh replace "$address" lladdr "$mac" dev flannel.1 nud permanent
done
ip -4 route show dev flannel.1 proto boot | sed -n 's/ via /&/p' | while read -r subnet _ via _; do
    ip route replace "$subnet" via "$via" dev flannel.1 onlink
done
"""


class Neighbour(NamedTuple):
    """A program that changes the network.

    Attributes:
        node: where it does so.
        prepare: a script, beforehand.
        acts: what it does, one after the other.
        tidy: a script, afterwards, whatever has happened.
        removes: whether each act takes away something of ours.
        cuts: whether it loses flows by itself, without the daemon.
    """

    node: str
    prepare: str
    acts: tuple[str, ...]
    tidy: str
    removes: bool = False
    cuts: bool = False


def file(path, text):
    """Lines of a script that write a file."""
    return f"install -D -m 600 /dev/stdin {path} <<'END'\n{text}END\n"


NEIGHBOURS = {
    "systemd-networkd": Neighbour(
        node=SENDER,
        prepare=(
            file("/etc/systemd/network/30-theirs.netdev", NETDEV)
            + file("/etc/systemd/network/30-theirs.network", NETWORK)
            + f"chmod 644 /etc/systemd/network/*\nsystemctl start systemd-networkd\n{CONFIGURED}"
        ),
        acts=(f"networkctl reconfigure theirs0\nsleep 0.2\n{CONFIGURED}",),
        tidy=f"{NO_NETWORKD}\nrm /etc/systemd/network/30-theirs.*\nip rule del priority 12345\nip link del theirs0",
        removes=True,
    ),
    "netplan with networkd": Neighbour(
        node=SENDER,
        prepare=(
            f"{WITH_UDEV}systemctl enable --quiet --now systemd-networkd\n"
            + file("/etc/netplan/50-theirs.yaml", NETPLAN.replace("RENDERER", "networkd"))
        ),
        acts=(f"netplan apply\nsleep 0.2\n{CONFIGURED}",),
        tidy=(
            f"systemctl disable --quiet systemd-networkd\n{NO_NETWORKD}\nrm /etc/netplan/*\nnetplan generate\n"
            "ip rule del priority 12345\nip link del theirs0"
        ),
        removes=True,
    ),
    "netplan with NetworkManager": Neighbour(
        node=LEADER,
        prepare=WITH_UDEV + file("/etc/netplan/50-theirs.yaml", NETPLAN.replace("RENDERER", "NetworkManager")),
        acts=(f"netplan apply\n{ADDRESSED}",),
        tidy="systemctl stop NetworkManager\nrm /etc/netplan/*\nnetplan generate\nip link del theirs0",
    ),
    "NetworkManager": Neighbour(
        node=LEADER,
        prepare=WITH_UDEV,
        acts=(
            f"systemctl start NetworkManager\n{BRIDGE}\nnmcli --wait 5 connection up theirs || true",
            "nmcli general reload\nnmcli device reapply theirs0 || true",
            "systemctl restart NetworkManager",
        ),
        tidy="nmcli connection delete theirs\nsystemctl stop NetworkManager\nip link del theirs0",
    ),
    "ufw": Neighbour(
        node=SENDER,
        prepare="\n".join(f"ufw allow {ports.replace('-', ':')}/udp" for ports in PORTS) + "\nufw default allow routed",
        acts=("ufw --force enable", "ufw reload"),
        tidy="ufw --force reset\nnft delete table ip filter\nnft delete table ip6 filter",
        cuts=True,
    ),
    "udev, sysctl and systemd": Neighbour(
        node=LEADER,
        prepare=WITH_UDEV + file("/etc/sysctl.d/50-default.conf", "net.ipv4.conf.default.rp_filter = 2\n"),
        acts=(
            "systemctl restart systemd-udevd\nudevadm trigger\nudevadm settle\nsysctl --quiet --system || true",
            f"systemctl daemon-reexec\nsystemctl restart systemd-networkd\nsleep 1\n{NO_NETWORKD}",
        ),
        tidy="rm /etc/sysctl.d/50-default.conf; sysctl --quiet net.ipv4.conf.default.rp_filter=0",
    ),
    "conntrack and nft": Neighbour(node=LEADER, prepare="", acts=("conntrack --flush\nnft flush ruleset",), tidy=""),
    "K3s": Neighbour(node=SENDER, prepare="", acts=(FLANNEL_AGAIN,), tidy=""),
    "ip rule flush": Neighbour(
        node=SENDER,
        prepare="",
        acts=("ip rule flush\nip rule add priority 32766 lookup main\nip rule add priority 32767 lookup default",),
        tidy="",
        removes=True,
    ),
    "ip route flush": Neighbour(
        node=SENDER,
        prepare="",
        acts=("for table in $(seq 7700 7799); do ip route flush table $table 2>&-; done || true",),
        tidy="",
        removes=True,
    ),
    "ip link delete": Neighbour(
        node=LEADER,
        prepare=SPARE,
        acts=(f"ip link delete $({SPARE})", f"ip link set $({SPARE}) down"),
        tidy="",
        removes=True,
    ),
}


@pytest.fixture(scope="module")
def built(packages, tmp_path_factory):
    """A mesh of machines with the programs, of which none runs, and with the services, all of which are green."""
    root = tmp_path_factory.mktemp("root")
    installed = [install(packages / "now.deb", debian_root(*PACKAGES), root)]
    with built_mesh(services(tmp_path_factory.mktemp("neighbours"), installed, packages)) as mesh:
        mesh.stage.settle()
        yield mesh


def test_a_firewall_that_closes_our_ports_moves_nothing_until_they_are_open(built):
    """A member with firewalld is silent for the others, and reaches everybody itself: traffic stays.

    While it reloads, firewalld drops what is new; that is its own doing.
    """
    mesh, machine, began_ns = built.stage, built.units.machines[SENDER], time.monotonic_ns()
    before, nodes = ours(machine), set(built.units.nodes)
    try:
        machine.sh(FIREWALLD)
        far = [node for node in nodes if mesh.lab.topology.location_of(node).name == "cloud"]
        mesh.wait_verdicts("node-unreachable", SENDER, far)
        lost = mesh.lost(began_ns, time.monotonic_ns())
        machine.sh(f"{OPEN}\nfirewall-cmd --quiet --reload")
        wait_for_green(built.units)
        left = theirs(machine)
        machine.sh("firewall-cmd --quiet --complete-reload")
        wait_for_green(built.units)

        assert left == theirs(machine)
    finally:
        machine.sh("systemctl stop firewalld\nrm -rf /etc/firewalld/zones/*")
    wait_for_green(built.units)

    assert 0 == lost
    assert before == ours(machine)
    assert [] == mesh.events(began_ns, "failover.applied", "object.reasserted")


def test_neither_networkd_nor_network_manager_takes_a_standby_link(built):
    """Whose kind depends on whether the kernel has WireGuard: here they are TUN devices of wireguard-go.

    With the example for networkd all rules and routes stay, Kilo's too.
    """
    machine = built.units.machines[LEADER]
    files = file("/etc/systemd/network/30-theirs.netdev", NETDEV)
    files += file("/etc/systemd/network/40-theirs.network", CATCH_ALL)
    before, rules = ours(machine), machine.read("ip", "-4", "rule")
    try:
        machine.sh(f"{WITH_UDEV}{files}chmod 644 /etc/systemd/network/*\n{EXAMPLE}")
        machine.sh(f"systemctl start systemd-networkd\n{CONFIGURED}\nsleep 0.5")
        addresses = machine.read("ip", "-br", "-4", "address")

        assert re.search(r"^theirs0 .* 10.97.0.1/32", addresses, re.MULTILINE)
        assert not re.search(r"^mw.* 10.97.0.1/32", addresses, re.MULTILINE)
        assert "NM_UNMANAGED=1" in machine.read("udevadm", "info", "--query=property", "/sys/class/net/mw1").split()
        assert rules == machine.read("ip", "-4", "rule")
        assert before == ours(machine)
    finally:
        machine.sh(f"{NO_NETWORKD}\nrm -r /etc/systemd/network/* /etc/systemd/networkd.conf.d\nip link del theirs0")


@pytest.fixture(scope="module")
def failing(built):
    """The mesh with a failover that is on: rules of ours carry traffic."""
    mesh = built.stage
    mesh.settle()
    with mesh.struck(faults.overlay_black_hole_new_flows(mesh.lab, "b1")) as strike:
        mesh.wait_switched()
        mesh.wait_restored(strike.began_ns)
        mesh.wait_verdicts("overlay-new-flows", "b1", built.units.nodes)
        yield built


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_ours_is_back_within_a_second_and_theirs_is_theirs(failing, name, tmp_path):
    """During a failover, on a node that carries its traffic."""
    neighbour = NEIGHBOURS[name]
    machine = failing.units.machines[neighbour.node]
    untouched = theirs(machine)
    try:
        machine.sh(neighbour.prepare)
        for number, act in enumerate(neighbour.acts):
            try_act(failing, neighbour, act, tmp_path / f"samples-{number}")
    finally:
        machine.run("sh", "-uc", neighbour.tidy)

    assert untouched == theirs(machine)


def try_act(failing, neighbour, act, samples):
    """One act, and what it does to ours and to theirs."""
    mesh, machine = failing.stage, failing.units.machines[neighbour.node]
    before, began_ns = ours(machine), time.monotonic_ns()
    with watched(machine, samples) as watch:
        machine.sh(act)
        left = theirs(machine)
        wait_until(lambda: ours(machine) == before, timeout_s=10, what=f"ours of before, after {act}", poll_s=0.1)
    lost = mesh.lost(began_ns, time.monotonic_ns())
    moved = mesh.events(began_ns, "failover.applied", "plan.refused")
    restored = [event for event in mesh.events(began_ns, "object.reasserted") if event.node == neighbour.node]

    assert before
    assert watch.longest_absence_s(before) < BACK_S, act
    assert neighbour.removes == bool(restored), act
    assert neighbour.cuts or lost <= (LOST_IN_A_SECOND if neighbour.removes else 0), act
    assert left == theirs(machine), act
    assert [] == moved, act


def test_a_default_route_of_wg_quick_is_asked_after_ours(failing, tmp_path):
    """It has the kernel choose priorities for two rules, each before the first of ours: ours move, twice, in a second.

    While a rule of its own answers first, the failover moves nothing.
    """
    mesh, machine, began_ns = failing.stage, failing.units.machines[SENDER], time.monotonic_ns()
    machine.write("/etc/wireguard/vpn0.conf", VPN, "600")
    before, untouched = without_places(machine), theirs(machine)
    (way,) = machine.read("ip", "-o", "route", "get", POD).splitlines()
    assert " table 77" in way
    try:
        with watched(machine, tmp_path / "up", ROUTE) as watch:
            machine.read("wg-quick", "up", "vpn0")
            left = theirs(machine)
            wait_until(lambda: is_first(machine) and without_places(machine) == before, timeout_s=10, what="ours first")
        lost = mesh.lost(began_ns, time.monotonic_ns())

        assert watch.longest_absence_s(answer(way)) < BACK_S
        assert lost <= LOST_IN_A_SECOND
        assert left == theirs(machine)
        assert [] == mesh.events(began_ns, "plan.refused")

        began_ns = time.monotonic_ns()
        with watched(machine, tmp_path / "down", ROUTE) as watch:
            machine.read("wg-quick", "down", "vpn0")
        assert 0 == watch.longest_absence_s(answer(way))
        assert 0 == mesh.lost(began_ns, time.monotonic_ns())
    finally:
        machine.run("wg-quick", "down", "vpn0")
        machine.run("sysctl", "--quiet", "net.ipv4.conf.all.src_valid_mark=0")

    assert before == without_places(machine)
    assert untouched == theirs(machine)


def answer(line):
    """What the kernel answers, as it is sampled."""
    return {line.strip()}


def without_places(machine):
    """What is ours, wherever its rules stand."""
    return tuple(sorted(re.sub(r"^\d+:|goto \d+", "", line) for line in ours(machine)))


def is_first(machine):
    """Whether all rules of ours are asked before those of wg-quick."""
    rules = machine.read("ip", "-4", "rule").splitlines()
    places = [number for number, line in enumerate(rules) if "proto meshwatchd" in line]
    return places == list(range(1, 1 + len(places)))
