"""`meshwatchctl failover` and `failback`: asked, answered, with the commands."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.events import OperatorVerb
from meshwatchd.model.outputs import ReplyOperator
from tests.support.control_room import Backend, control_room


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (["failover"], (OperatorVerb.FAILOVER, "", None, False)),
        (["failover", "onprem", "--rank", "2", "--dry-run"], (OperatorVerb.FAILOVER, "onprem", 2, True)),
        (["failback", "onprem"], (OperatorVerb.FAILBACK, "onprem", None, False)),
        (["failback", "--dry-run"], (OperatorVerb.FAILBACK, "", None, True)),
    ],
)
def test_what_is_asked_reaches_the_engine(room, run, arguments, asked):
    """Nothing is guessed on the way."""
    assert 0 == run(*arguments)[0]
    assert [asked] == room.backend.asked


def test_the_commands_are_shown_ready_to_be_copied(room, run):
    """On lines of their own."""
    out = run("failover", "--dry-run")[1]
    assert "accepted: moves\non this node, not carried out:\n  ip rule add pref 5460\n" == out


def test_a_refusal_says_why_and_exits_1(room, run):
    """Refused is neither unreachable nor wrong usage."""
    room.backend.reply = ReplyOperator(request=1, is_accepted=False, text="path 3 is not good")
    assert (1, "refused: path 3 is not good\n", "") == run("failover", "--rank", "3")


def test_json_is_the_reply(room, run):
    """For programs."""
    reply = msgspec.json.decode(run("--json", "failback")[1])
    assert {"accepted": True, "text": "moves", "operations": ["ip rule add pref 5460"]} == reply


def test_somebody_else_than_root_is_sent_away(tmp_path, capsys):
    """With the way to look all the same."""
    from meshwatchd.cli.main import main

    with control_room(tmp_path / "control.sock", Backend(), uid=1000) as room:
        assert 77 == main(["--socket", str(room.path), "failover"])
        assert "use sudo, or --dry-run to look only" in capsys.readouterr().err
        assert 0 == main(["--socket", str(room.path), "failover", "--dry-run"])
