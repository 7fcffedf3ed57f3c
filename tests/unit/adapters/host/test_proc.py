"""What is read from /proc, and that what is not there is no error."""

from __future__ import annotations

import pytest

from meshwatchd.adapters.host.proc import read_forwarding, read_host, read_text
from meshwatchd.model.host import HostState

FILES = {
    "sys/net/ipv4/ip_forward": "1\n",
    "sys/net/ipv4/conf/all/rp_filter": "0\n",
    "sys/net/ipv4/conf/kilo0/rp_filter": "1\n",
    "sys/net/ipv4/conf/kilo0/forwarding": "1\n",
    "sys/net/ipv4/conf/flannel.1/rp_filter": "0\n",
    "sys/net/ipv4/conf/flannel.1/forwarding": "0\n",
    "sys/net/netfilter/nf_conntrack_count": "12\n",
    "sys/net/netfilter/nf_conntrack_max": "262144\n",
    "net/stat/nf_conntrack": "entries  found invalid drop early_drop\n0c  00 0a 01 99\n0c  00 05 02 99\n",
    "net/snmp": "Udp: InDatagrams InErrors InCsumErrors\nUdp: 9 8 7\nUdpLite: InDatagrams\nUdpLite: 1\n",
}


@pytest.fixture
def proc(tmp_path):
    """A /proc of its own."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_sysctls_and_counters_are_read(proc):
    """Counters of all CPUs together, in hexadecimal; a device that does not exist is left out."""
    assert HostState(
        at_ns=5,
        is_forwarding=True,
        rp_filter={"kilo0": 1, "flannel.1": 0},
        unforwarding=("flannel.1",),
        conntrack_count=12,
        conntrack_max=262144,
        conntrack_drops=3,
        conntrack_invalid=15,
        udp_checksum_errors=7,
    ) == read_host(("kilo0", "flannel.1", "mw9"), 5, proc=proc)


def test_forwarding_is_read_by_itself(proc):
    """And is not known where it cannot be read."""
    found = [read_forwarding(proc)]
    for text in ("0\n", ""):
        (proc / "sys/net/ipv4/ip_forward").write_text(text)
        found.append(read_forwarding(proc))
    assert [True, False, None] == found


def test_of_a_forwarder_forwarding_alone_is_read(proc):
    """As of the bridge of this node's pods."""
    seen = read_host(("kilo0",), 5, forwarders=("flannel.1", "cni9"), proc=proc)
    assert (("flannel.1",), {"kilo0": 1}) == (seen.unforwarding, seen.rp_filter)


def test_flows_that_clash_are_no_packets_dropped_for_want_of_room(proc):
    """The kernel counts those as both; two questions for a name that leave at once are enough."""
    text = "entries  found invalid drop early_drop insert_failed\n0c  00 0a 07 99 05\n0c  00 05 02 99 01\n"
    (proc / "net/stat/nf_conntrack").write_text(text)

    assert 3 == read_host((), 5, proc=proc).conntrack_drops


@pytest.mark.parametrize(("of_all", "effective"), [("1", 1), ("2", 2)])
def test_the_larger_rp_filter_counts(proc, of_all, effective):
    """As in the kernel: conf.all can make a device stricter, or looser."""
    (proc / "sys/net/ipv4/conf/all/rp_filter").write_text(of_all)

    assert effective == read_host(("kilo0",), 5, proc=proc).rp_filter["kilo0"]


def test_a_kernel_without_all_that_is_no_error(tmp_path):
    """Nothing is known, so nothing is said."""
    assert HostState(at_ns=5) == read_host(("kilo0",), 5, proc=tmp_path)


def test_this_very_kernel_can_be_read():
    """The paths are real."""
    assert isinstance(read_host(("lo",), 5).rp_filter["lo"], int)


def test_a_missing_file_is_an_empty_one(tmp_path):
    """It differs from every configuration, and says nothing of the kernel."""
    assert "" == read_text(tmp_path / "mw0.conf")


def test_packets_are_counted_of_those_that_were_asked_for(tmp_path):
    """A line of the kernel has eight numbers for each direction, and no blank where a name is long."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/dev").write_text(
        "Inter-|   Receive                            |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop\n"
        "    lo: 1 2 0 0 0 0 0 0 1 2 0 0 0 0 0 0\n"
        "nebula1:5200 52 0 0 0 0 0 0 6100 61 0 3 0 0 0 0\n"
    )

    assert {"nebula1": (52, 61)} == read_host((), 5, counted=("nebula1", "eth9"), proc=tmp_path).packets
    assert {} == read_host((), 5, proc=tmp_path).packets
