"""The daemon of this node: one more client of its socket, whose refusals are reported once."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.operators.hold_requests import why_root_only
from meshwatchd.model.events import OperatorVerb
from meshwatchd.model.outputs import ReplyOperator
from meshwatchkube.actions import Drain, Pin, Unpin
from meshwatchkube.control import DRAINED_NS, PINNED_NS, Control
from tests.support.control_room import Backend, control_room
from tests.support.example_nodes import NODES
from tests.support.example_status import MOVED
from tests.support.kube import Log


@pytest.fixture
def log():
    """What is logged."""
    return Log()


def _backend():
    backend = Backend(MOVED)
    backend.known = NODES
    return backend


def test_the_picture_is_that_of_both_replies(tmp_path, log):
    """Status and Nodes."""
    path = tmp_path / "control.sock"
    with control_room(path, _backend()):
        seen = Control(path, log).look()
    assert seen is not None
    assert seen.members
    assert seen.pairs
    assert seen.node in seen.members
    assert [] == log.events()


def test_a_daemon_that_is_away_is_reported_once(tmp_path, log):
    """And when it is there again, so is its next absence."""
    path = tmp_path / "control.sock"
    control = Control(path, log)
    assert [None, None] == [control.look(), control.look()]
    assert ["daemon.refused"] == log.events()
    with control_room(path, _backend()):
        assert control.look() is not None
    assert control.look() is None
    assert ["daemon.refused"] * 2 == log.events()


@pytest.mark.parametrize(
    ("action", "verb", "fields"),
    [
        (
            Pin(remote="cloud", rank=3, reason="b2 is to lead"),
            OperatorVerb.PIN,
            {"location": "cloud", "to_rank": 3, "duration_ns": PINNED_NS, "reason": "b2 is to lead"},
        ),
        (Unpin(remote="cloud"), OperatorVerb.UNPIN, {"location": "cloud"}),
        (Drain(is_drained=True), OperatorVerb.DRAIN, {"duration_ns": DRAINED_NS}),
        (Drain(is_drained=False), OperatorVerb.UNDRAIN, {}),
    ],
)
def test_holds_carry_our_name_and_an_end(tmp_path, log, *, action, verb, fields):
    """So that only ours are ended, and none stands for ever."""
    path, backend = tmp_path / "control.sock", _backend()
    with control_room(path, backend):
        Control(path, log).steer(action)
    (request,) = backend.requests
    assert (verb, "meshwatchd-kube") == (request.verb, request.name)
    assert fields == {name: getattr(request, name) for name in fields}
    assert "" == why_root_only(msgspec.structs.replace(request, is_from_root=False))
    assert "hold.requested" == log.events()[-1]


def test_a_refusal_is_reported_once(tmp_path, log):
    """A process that is not root moves nothing; nor does a daemon that has a reason."""
    path, backend = tmp_path / "control.sock", _backend()
    with control_room(path, backend, uid=1000):
        control = Control(path, log)
        control.steer(Pin(remote="cloud", rank=3, reason=""))
        control.steer(Pin(remote="cloud", rank=3, reason=""))
    assert [("daemon.refused", "only root may do that; use sudo, or --dry-run to look only")] == [
        (event, fields["why"]) for event, fields in log.lines
    ]
    backend.reply = ReplyOperator(request=1, is_accepted=False, text="rank 3 is not good now")
    with control_room(path, backend):
        control.steer(Pin(remote="cloud", rank=3, reason=""))
    assert "rank 3 is not good now" == log.lines[-1][1]["why"]
    assert "hold.requested" not in log.events()
