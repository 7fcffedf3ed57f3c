"""What iproute2 complains about is shown with the line it is about."""

from netnslab.inhabitant import _quote_failure

LINES = ["link set lo up", "link set kilo0 mtu 20"]


def test_the_failed_line_is_quoted():
    """Lines count from 1, and the message is one line."""
    stderr = "Error: mtu less than device minimum.\nCommand failed -:2\n"

    assert "'link set kilo0 mtu 20': Error: mtu less than device minimum." == _quote_failure(stderr, LINES)


def test_a_complaint_without_a_line_is_passed_on():
    """A missing tool, a syntax error of another version."""
    assert "nsenter: failed to execute ip" == _quote_failure("nsenter: failed to\nexecute ip\n", LINES)
