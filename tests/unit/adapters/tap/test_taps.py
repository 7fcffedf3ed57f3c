"""Two taps as one: who tapped nothing says None, and the first thing heard from the peer tells its MAC."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import msgspec
import pytest

from meshwatchd.adapters.tap.filter import Wanted
from meshwatchd.adapters.tap.taps import Taps, count_peer
from meshwatchd.model.bisection import KnownFlows, PeerCounts, SeriesName
from meshwatchd.model.errors import KernelError
from tests.support.bisection import ETH0, FLANNEL, PORT

WANTED = Wanted(addresses=(socket.inet_aton("10.2.0.11"),), port=PORT, vxlan_port=8472)


def test_without_devices_nothing_is_counted():
    """None, not zero: nobody looked."""
    down = msgspec.structs.replace(FLANNEL, is_up=False)
    with closing(Taps(down, None, WANTED, ssid=1)) as taps:
        taps.read()

        assert [] == taps.filenos()
        assert taps.at_overlay(SeriesName.KERNEL, is_outgoing=True, is_answer=False) is None
        assert PeerCounts(name=SeriesName.KERNEL) == count_peer(taps, SeriesName.KERNEL)
        assert KnownFlows(sent=0, answered=0) == taps.known_flows(0)
        assert () == taps.reports()


def test_a_tap_that_may_not_be_opened_names_what_it_needs():
    """No such device, or no permission: either way the device and the capability are named."""
    missing = msgspec.structs.replace(ETH0, name=f"no{os.getpid()}"[:15])

    with pytest.raises(KernelError, match=f"tap {missing.name}.*CAP_NET_RAW"):
        Taps(None, missing, WANTED, ssid=1)
