"""Echoes beside the daemon's sessions."""

from __future__ import annotations

from meshwatchd.adapters.echo import Echo
from meshwatchd.cli.echo_legs import EchoLegs, addresses_of
from meshwatchd.cli.legs import locate
from meshwatchd.model.ids import FlowClass
from tests.support.example_nodes import NODES


class Answers:
    """Echoes that are answered as a test wants, by address."""

    def __init__(self, answers):
        self.answers = answers
        self.closed: list[str] = []

    def __call__(self, address, *, size, is_fresh):
        """As Echoes."""
        del size, is_fresh
        return self._Line(self, address)

    class _Line:
        def __init__(self, whole, address):
            self._whole, self._address = whole, address

        def ask(self, _timeout_s):
            """The next of the answers."""
            return self._whole.answers[self._address].pop(0)

        def close(self):
            """Remembered."""
            self._whole.closed.append(self._address)


def test_a_node_is_asked_at_each_of_its_addresses():
    """A pod at its own; an address that is nobody's as it is."""
    assert {"underlay": "192.168.100.11", "wireguard": "10.4.0.2", "overlay": "10.244.1.0"} == addresses_of(
        locate("a1", NODES), "a1"
    )
    assert {"pod": "10.244.3.7"} == addresses_of(locate("10.244.3.7", NODES), "10.244.3.7")
    assert {"address": "8.8.8.8"} == addresses_of(None, "8.8.8.8")


def test_what_was_answered_is_counted_by_address():
    """The state is that of the last; the round trip the median."""
    answers = Answers({"x": [Echo(1), Echo(None), Echo(3)], "y": [Echo(None, "Message too long")] * 3})
    echoes = EchoLegs("a1", {"underlay": "x", "overlay": "y"}, is_fresh=True, make=answers)
    assert ["init", "init"] == [leg.state for leg in echoes.legs()]
    for _ in range(3):
        echoes.ask()
    first, second = echoes.legs()
    assert ("up", 3, 1, 2, FlowClass.FRESH) == (first.state, first.sent, first.lost, first.rtt_ns, first.flow)
    assert ("message too long", 3, 3) == (second.state, second.sent, second.lost)
    echoes.close()
    assert ["x", "y"] == answers.closed


def test_without_addresses_nothing_is_asked():
    """As where the kernel allows no echoes."""
    echoes = EchoLegs("a1", {})
    echoes.ask()
    assert [] == list(echoes.legs())
