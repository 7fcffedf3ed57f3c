"""The figures of a mesh at rest, from made-up counters."""

from __future__ import annotations

from netnslab import topology_file
from netnslab.rest_figures import Device, Reading, read_devices, summarise

SECOND = 1_000_000_000
NET_DEV = """Inter-|   Receive                             |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier
    lo:   100  2 0 0 0 0 0 0   100  2 0 0 0 0 0 0
 kilo0:  1000 10 0 0 0 0 0 0  2000 20 0 0 0 0 0 0
"""


def _reading(at_s, *, tunnel, lan, cpu_ms):
    devices = {"kilo0": Device(*tunnel), "mw0": Device(0, 0, 1000 * at_s, at_s), "eth0": Device(*lan)}
    cpu_ns = {"engine": cpu_ms * 1_000_000, "agent": 0}
    return Reading(at_ns=at_s * SECOND, devices=devices, cpu_ns=cpu_ns, rss_kib={"engine": 2048, "agent": 1024})


def test_a_device_is_read_by_its_name():
    """Bytes and packets of both directions, and nothing else of the 16 numbers."""
    assert Device(1000, 10, 2000, 20) == read_devices(NET_DEV)["kilo0"]


def test_figures_are_medians_of_windows():
    """One window with a burst of traffic and work moves no figure; tunnels and standby links count together."""
    topology = topology_file.load("kilo-flannel")
    counts = [(0, 0), (1_000, 10), (2_000, 20), (90_000, 900), (91_000, 910)]
    readings = {
        node: [
            _reading(at, tunnel=(0, 0, sent, sent // 1000), lan=(2 * sent, 0, 0, 0), cpu_ms=cpu)
            for at, (sent, cpu) in enumerate(counts)
        ]
        for node in topology.nodes
    }

    figures = summarise(topology, readings)

    wan = {"kbit_s": 48.0, "on_the_wire_kbit_s": 50.9, "packets_s": 6.0}
    assert wan == figures.wan["onprem"]["out"]
    assert (0.0, 0.0) == (figures.wan["cloud"]["in"]["kbit_s"], figures.wan["cloud"]["in"]["packets_s"])
    assert (16.0, 1.0, 3.0) == tuple(figures.nodes["b3"][name] for name in ("lan_in_kbit_s", "cpu_percent", "rss_mib"))
    assert (48.0, 16.0) == (figures.worst["wan_kbit_s"], figures.worst["member_lan_kbit_s"])
