"""`meshwatchctl explain`: the evidence and the deeds, over the socket."""

from __future__ import annotations

import time

import msgspec

from meshwatchd.cli.main import main
from meshwatchd.model.faults import CATALOGUE
from tests.support.example_status import BECAUSE, HEALTHY, INCIDENT, MOVED, NOW_NS


def _fill(room) -> None:
    room.backend.current = msgspec.structs.replace(MOVED, at_ns=time.monotonic_ns())
    shift_ns = time.monotonic_ns() - NOW_NS
    for line in INCIDENT:
        room.backend.store.append({**line, "at_ns": line["at_ns"] + shift_ns})


def test_every_piece_of_evidence_and_every_deed_is_told(room, run):
    """Enough for a person on call who has never seen the program."""
    _fill(room)
    code, out, _ = run("explain")
    assert 1 == code
    for sentence in (*BECAUSE, "moved traffic to path b2-a1", "verified path b2-a1: 8 of 8 probes arrived"):
        assert sentence in out
    assert "remedy  drain the leader" in out


def test_a_stale_report_explains_nothing(room, run):
    """An engine that does not run any more says that all is well for ever."""
    room.backend.current = msgspec.structs.replace(HEALTHY, at_ns=time.monotonic_ns() - 60_000_000_000)
    code, out, _ = run("explain")
    assert (3, True) == (code, out.startswith("UNKNOWN  the engine last reported 60"))
    assert 3 == run("--json", "explain")[0]


def test_json_is_the_reply_of_the_daemon(room, run):
    """The same sentences for programs."""
    _fill(room)
    reply = msgspec.json.decode(run("--json", "explain")[1])
    (explanation,) = reply["explanations"]
    assert ("overlay-new-flows", list(BECAUSE)) == (explanation["fault"], explanation["because"])
    assert "verified path b2-a1: 8 of 8 probes arrived" == explanation["done"][-1]["text"]


def test_a_code_is_explained_without_a_daemon(run):
    """The catalogue is in the program."""
    code, out, _ = run("explain", "neighbour-missing")
    assert 0 == code
    assert "neighbour-missing: the gateway of a peer's pods has no link-layer address" in out
    assert "hidden by overlay-device-missing" in out

    assert "neighbour-missing" == msgspec.json.decode(run("--json", "explain", "neighbour-missing")[1])["code"]
    assert 64 == run("explain", "no-such-code")[0]


def test_the_list_has_every_fault(capsys):
    """One a line, from any machine."""
    assert 0 == main(["--socket", "/nonexistent", "explain", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [code.value for code in CATALOGUE] == [line.split()[0] for line in lines[1:]]
    assert 0 == main(["explain", "--list", "--json"])
    assert len(CATALOGUE) == len(msgspec.json.decode(capsys.readouterr().out))
