from datetime import datetime

from netnslab.bench.daemon_log import Change, bird_changes, frr_changes

BIRD_LOG = """\
1795293876.037120 <TRACE> bfd1: Starting
1795293876.037887 <TRACE> bfd1: Session to 10.10.0.2 added
1795293876.789901 <TRACE> bfd1: Session to 10.10.0.2 changed state from Init to Up
1795293880.247081 <TRACE> bfd1: Session to 10.10.0.2 expired
1795293880.247081 <TRACE> bfd1: Session to 10.10.0.2 changed state from Up to Down
"""
FRR_LOG = """\
2026/11/21 20:45:04.870418 BFD: [WJMQE-SVGRJ] session-enable: specified interface t1 (VRF default) doesn't exist.
2026/11/21 20:45:05.947292 BFD: [J1C6V-VMRW5] state-change: [mhop:no peer:10.10.1.2 local:10.10.1.1 vrf:default \
ifname:t1] down -> up
2026/11/21 20:45:09.156417 BFD: [SEY1D-NT8EQ] state-change: [mhop:no peer:10.10.1.2 local:10.10.1.1 vrf:default \
ifname:t1] up -> down reason:control-expired
"""


def test_bird_tells_changes_to_the_microsecond():
    """Only changes of state count, not that a session was added or has expired."""
    assert [
        Change(wall_ns=1_795_293_876_789_901_000, peer="10.10.0.2", state="up"),
        Change(wall_ns=1_795_293_880_247_081_000, peer="10.10.0.2", state="down"),
    ] == list(bird_changes(BIRD_LOG))


def test_bfdd_tells_changes_in_local_time():
    """The instants are those of the machine's time zone, whichever that is."""
    up, down = frr_changes(FRR_LOG)
    local = datetime(2026, 11, 21, 20, 45, 5, 947_292).astimezone()

    assert ("10.10.1.2", "up", "down") == (up.peer, up.state, down.state)
    assert round(local.timestamp() * 1e6) * 1_000 == up.wall_ns
    assert 3_209_125_000 == down.wall_ns - up.wall_ns
