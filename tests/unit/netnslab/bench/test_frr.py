from pathlib import Path

from netnslab.bench.bird import BfdSession, BfdTimers
from netnslab.bench.frr import configuration, up_peers

LISTING = '[{"peer": "10.10.1.2", "status": "up", "uptime": 3}, {"peer": "10.10.1.3", "status": "down"}]'


def test_only_up_is_up():
    """Peers that are down or still starting are not ready to be measured."""
    assert {"10.10.1.2"} == up_peers(LISTING)


def test_a_daemon_that_does_not_answer_has_no_session():
    """All that vtysh prints is a sentence, while bfdd is starting."""
    assert set() == up_peers("Exiting: failed to connect to any daemons.\n")


def test_peers_have_the_timers_that_were_asked_for():
    """Detection time is interval times multiplier in both directions."""
    session = BfdSession(local="10.1.0.1", remote="10.1.0.2", device="test0")
    text = configuration(Path("bfdd.log"), [session], BfdTimers(interval_ms=20, multiplier=3))

    assert " peer 10.1.0.2 local-address 10.1.0.1 interface test0\n" in text
    assert "  detect-multiplier 3\n  receive-interval 20\n  transmit-interval 20\n" in text
