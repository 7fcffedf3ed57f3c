"""`meshwatchctl pause`, `drain`, `pin`, their ends, and `confirm`: what reaches the engine."""

from __future__ import annotations

import pytest

from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.settings import MINUTE, SECOND


def _asked(verb, **words):
    return OperatorRequested(request=0, verb=verb, **words)


@pytest.mark.parametrize(
    ("arguments", "request_"),
    [
        (
            "pause onprem --for 10min --reason switch --by ann",
            _asked(OperatorVerb.PAUSE, location="onprem", duration_ns=10 * MINUTE, reason="switch", name="ann"),
        ),
        ("drain --by ann", _asked(OperatorVerb.DRAIN, duration_ns=60 * MINUTE, name="ann")),
        (
            "pin --rank 2 --for 30s --by ann",
            _asked(OperatorVerb.PIN, to_rank=2, duration_ns=30 * SECOND, name="ann"),
        ),
        ("resume", _asked(OperatorVerb.RESUME)),
        ("resume onprem --by ann", _asked(OperatorVerb.RESUME, location="onprem", name="ann")),
        ("undrain --dry-run", _asked(OperatorVerb.UNDRAIN, is_dry_run=True)),
        ("unpin onprem", _asked(OperatorVerb.UNPIN, location="onprem")),
        ("confirm", _asked(OperatorVerb.CONFIRM)),
        ("failover --confirm-within 30s", _asked(OperatorVerb.FAILOVER, duration_ns=30 * SECOND)),
    ],
)
def test_what_is_asked_reaches_the_engine(room, run, arguments, request_):
    """Nothing is guessed on the way but whose order it is."""
    assert 0 == run(*arguments.split())[0]
    assert [request_] == room.backend.requests


def test_the_person_behind_sudo_is_the_owner(room, run, monkeypatch):
    """The list of orders is for asking somebody."""
    monkeypatch.setenv("SUDO_USER", "ann")
    run("pause")
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setenv("USER", "root")
    run("drain")
    assert ["ann", "root"] == [request.name for request in room.backend.requests]


@pytest.mark.parametrize("arguments", [("pause", "--for", "soon"), ("failover", "--confirm-within", "30")])
def test_a_duration_has_a_unit(run, arguments):
    """The answer says how to write one."""
    status, _, err = run(*arguments)
    assert 64 == status
    assert "is no duration; write a number and a unit" in err
