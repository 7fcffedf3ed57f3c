"""`meshwatchctl ping` against a daemon that a test fills; --layer relay, so that nothing leaves the machine."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.cli.main import main
from tests.support.example_nodes import NODES
from tests.support.example_status import HEALTHY, MOVED

ONCE = ("--layer", "relay", "--count", "1", "--interval", "100ms")


@pytest.fixture
def known(room):
    """A daemon that knows the nodes."""
    room.backend.known = NODES
    return room


def test_the_sessions_of_the_path_in_use_are_watched(known, run):
    """What was lost before it began is not counted."""
    status, out, _ = run("ping", "a3", *ONCE, "--json")
    (leg,) = msgspec.json.decode(out)["legs"]
    assert (0, "relay", "b2-a1", 0) == (status, leg["layer"], leg["over"], leg["sent"])
    assert run("ping", "a3", *ONCE)[1].startswith("OK  a3: 1 of 1 legs without loss")


def test_a_layer_that_is_down_is_the_exit_status(known, run):
    """Of new flows alone, where that is asked for."""
    known.backend.current = HEALTHY
    assert 2 == run("ping", "a3", *ONCE)[0]
    status, out, _ = run("ping", "a3", *ONCE, "--fresh", "--json")
    assert ["fresh"] == [leg["flow"] for leg in msgspec.json.decode(out)["legs"]]
    assert 2 == status


def test_without_any_leg_nothing_is_known(known, run):
    """No session of that layer leads to b2."""
    known.backend.current = MOVED
    assert 1 == run("ping", "b2", *ONCE)[0]


def test_a_name_needs_the_daemon_and_an_address_does_not(known, run, tmp_path, capsys):
    """Who is nobody is wrong usage."""
    status, _, complaint = run("ping", "nobody", *ONCE)
    assert 64 == status
    assert "nodes are: b1, b2" in complaint
    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "ping", "a3", *ONCE])
    assert 1 == main(["--socket", str(tmp_path / "none.sock"), "ping", "127.0.0.1", *ONCE])
    assert "there is no socket" in capsys.readouterr().err
