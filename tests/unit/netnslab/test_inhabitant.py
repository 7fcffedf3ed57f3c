"""What iproute2 complains about is shown with the line it is about."""

import os
from pathlib import Path

from netnslab.inhabitant import Inhabitant, _quote_failure
from netnslab.namespaces import Space

LINES = ["link set lo up", "link set kilo0 mtu 20"]


def test_the_failed_line_is_quoted():
    """Lines count from 1, and the message is one line."""
    stderr = "Error: mtu less than device minimum.\nCommand failed -:2\n"

    assert "'link set kilo0 mtu 20': Error: mtu less than device minimum." == _quote_failure(stderr, LINES)


def test_a_complaint_without_a_line_is_passed_on():
    """A missing tool, a syntax error of another version."""
    assert "nsenter: failed to execute ip" == _quote_failure("nsenter: failed to\nexecute ip\n", LINES)


def test_what_is_started_leads_a_session_as_a_service_does():
    """Six agents in one session would share what each has alone on its own machine."""
    here = Inhabitant(name="here", ip="", space=Space(name="here", directory=Path("/proc/self/ns"), kinds=()))
    with here.popen(["sleep", "60"]) as sleeper:
        session = os.getsid(sleeper.pid)
        sleeper.kill()

    assert sleeper.pid == session
