from pathlib import Path

from netnslab.bench.bird import BfdSession, BfdTimers, configuration, up_peers

TIMERS = BfdTimers(interval_ms=50, multiplier=3)
LISTING = """\
BIRD 2.0.12 ready.
bfd1:
IP address                Interface  State      Since         Interval  Timeout
10.10.0.2                 t0         Up         20:44:36.789    0.050    0.150
10.10.0.3                 t0         Down       20:44:36.789    1.000    0.000
"""


def test_only_up_is_up():
    """A session that is Down or Init is not ready to be measured."""
    assert {"10.10.0.2"} == up_peers(LISTING)


def test_sessions_have_the_timers_and_neighbours_that_were_asked_for():
    """One device with its timers, and a neighbour for each session."""
    sessions = [BfdSession(local="10.1.0.1", remote=f"10.1.0.{n}", device="test0") for n in (2, 3)]
    text = configuration(Path("bird.log"), sessions, TIMERS)

    assert 1 == text.count('interface "test0" { interval 50 ms; multiplier 3; };')
    assert 'neighbor 10.1.0.2 dev "test0" local 10.1.0.1;' in text
    assert 'neighbor 10.1.0.3 dev "test0" local 10.1.0.1;' in text


def test_a_session_without_device_is_multihop():
    """Its timers are those of the multihop section."""
    text = configuration(Path("bird.log"), [BfdSession(local="10.1.0.1", remote="10.2.0.1", device=None)], TIMERS)

    assert "multihop { interval 50 ms; multiplier 3; };" in text
    assert "neighbor 10.2.0.1 local 10.1.0.1 multihop yes;" in text


def test_protocols_that_ask_for_their_sessions_need_no_neighbours():
    """A static route with bfd makes the session; a second definition would be another one."""
    session = BfdSession(local="10.1.0.1", remote="10.1.0.2", device="test0")

    assert "neighbor" not in configuration(Path("bird.log"), [session], TIMERS, more="protocol static { }\n")
