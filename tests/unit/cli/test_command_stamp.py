"""`meshwatchctl stamp` with another maker's reflector: no daemon is running."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.stamp_interop.measurement import Measurement
from meshwatchd.cli.main import main
from tests.support.packet_node import free_port
from tests.support.stamp_peer import Habits, peer_reflector, read_tlvs

FAST = ("--count", "3", "--interval", "1ms")


def test_a_good_reflector_is_a_success(capsys):
    """A line for each answer, then the sum."""
    with peer_reflector() as peer:
        assert 0 == main(["stamp", "127.0.0.1", "--port", str(peer.port), *FAST, "--size", "100"])
    lines = capsys.readouterr().out.splitlines()
    assert ["seq 0", "seq 1", "seq 2", "3 sent"] == [line[:5] if line[0] == "s" else line[:6] for line in lines[:4]]
    assert "3 sent, 3 answered, 0 lost (0 %)" == lines[3]
    assert {100} == {len(packet) for packet in peer.seen}


def test_loss_is_told_by_the_exit_status_and_json_by_its_numbers(capsys):
    """1 for some, 2 for all."""
    with peer_reflector(Habits(lose_there=(1,))) as peer:
        arguments = ["--json", "stamp", "127.0.0.1", "--port", str(peer.port), *FAST, "--wait", "30ms"]
        assert 1 == main(arguments)
    result = msgspec.json.decode(capsys.readouterr().out, type=Measurement)
    assert (3, 2, "stateful") == (result.sent, result.received, result.reflector)
    assert 2 == main(["stamp", "127.0.0.1", "--port", str(free_port()), *FAST, "--wait", "5ms"])


def test_a_key_means_authenticated_mode(tmp_path, capsys):
    """Unless open mode is asked for, where it signs the TLVs."""
    key = tmp_path / "key"
    key.write_bytes(b"short")
    key.chmod(0o400)
    with peer_reflector(Habits(key=b"short")) as peer:
        assert 0 == main(["stamp", "127.0.0.1", "--port", str(peer.port), *FAST, "--key-file", str(key)])
    with peer_reflector() as peer:
        question = ("--tlv", "timestamp", "--open", "--key-file", str(key))
        assert 0 == main(["stamp", "127.0.0.1", "--port", str(peer.port), *FAST, *question])
    assert [3, 8] == [kind for _, kind, _ in read_tlvs(peer.seen[0][44:])]
    key.chmod(0o444)
    assert 64 == main(["stamp", "127.0.0.1", "--key-file", str(key)])
    assert f"{key}: --key-file: is open to everybody" in capsys.readouterr().err


def test_each_question_can_be_asked():
    """By name, or as type and value."""
    questions = [
        "location",
        "timestamp",
        "direct",
        "access",
        "follow-up",
        "cos:46",
        "destination:127.0.0.1",
        "200:0aff",
    ]
    options = [word for question in questions for word in ("--tlv", question)]
    with peer_reflector() as peer:
        assert 0 == main(["stamp", "127.0.0.1", "--port", str(peer.port), *FAST, "--ssid", "7", *options])
    assert [2, 3, 5, 6, 7, 4, 9, 200] == [kind for _, kind, _ in read_tlvs(peer.seen[0][44:])]
    assert (b"\0\x07", b"\x0a\xff") == (peer.seen[0][14:16], peer.seen[0][-2:])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--tlv", "cos:64"), "--tlv cos:64: 64 is not in 0..63; write one of location, "),
        (("--tlv", "what"), "--tlv what: invalid literal"),
        (("--tlv", "destination:here"), "does not appear to be an IPv4 or IPv6 address"),
        (("--size", "46"), "--size 46: this packet has 44 bytes, and padding at least 4 more"),
        (("--interval", "soon"), "'soon' is no duration; write a number and a unit"),
        (("--key-file", "/nonexistent"), "there is no such file; run: umask 077; head -c 32"),
    ],
)
def test_wrong_usage_is_a_line_and_64(options, complaint, capsys):
    """Nothing is sent."""
    assert 64 == main(["stamp", "127.0.0.1", *options])
    assert complaint in " ".join(capsys.readouterr().err.split())


def test_a_host_that_does_not_exist_is_wrong_usage(capsys):
    """The line names it."""
    assert 64 == main(["stamp", "no.such.invalid", *FAST])
    assert "no.such.invalid port 862: " in capsys.readouterr().err
