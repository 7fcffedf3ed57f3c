"""`meshwatchctl stamp` with another maker's reflector: no daemon is running."""

from __future__ import annotations

import os
import resource
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import msgspec
import pytest

from meshwatchd.adapters.stamp_interop.measurement import Measurement
from meshwatchd.cli.main import main
from tests.support.packet_node import free_port
from tests.support.pump import pump
from tests.support.stamp_peer import Habits, peer_reflector, read_tlvs
from tests.support.stamp_reflecting import reflecting

FAST = ("--count", "3", "--interval", "1ms")
FEW = 6
"""Descriptors."""


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
    assert "nothing listens on UDP port" in capsys.readouterr().out


def test_what_could_not_be_sent_is_no_success(capsys):
    """All that left was answered; for the rest there was no descriptor, or, where a link has gone, no route."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with peer_reflector() as peer:
        words = ["--json", "stamp", "127.0.0.1", "--port", str(peer.port), "--fresh", "--interval", "1ms"]
        assert 0 == main([*words, "--count", "1"])
        capsys.readouterr()
        with Path(os.devnull).open("rb") as lowest:
            limit = lowest.fileno() + FEW
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
        try:
            status = main([*words, "--count", "40"])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    result = msgspec.json.decode(capsys.readouterr().out, type=Measurement)

    assert (40, result.sent) == (result.sent + result.unsent["Too many open files"], result.received)
    assert 1 == status


def test_json_has_what_was_measured_and_how(capsys):
    """Address as given and as looked up, mode, start and settings, beside the figures; a hint where all is lost."""
    with peer_reflector() as peer:
        words = ["--json", "stamp", "localhost", "-4", "--port", str(peer.port), *FAST, "--dscp", "46", "--ssid", "7"]
        assert 0 == main([*words, "--size", "100", "--dont-fragment"])
    found = msgspec.json.decode(capsys.readouterr().out)

    assert ("localhost", "127.0.0.1", peer.port, "open", "") == tuple(
        found[key] for key in ("address", "target", "port", "mode", "hint")
    )
    assert datetime.now(UTC) - datetime.fromisoformat(found["start"]) < timedelta(minutes=1)
    assert {
        "count": 3,
        "interval_ns": 1_000_000,
        "wait_ns": 1_000_000_000,
        "payload_bytes": 100,
        "dscp": 46,
        "ssid": 7,
        "tlvs": [],
        "fresh": False,
        "source": "",
        "source_port": 0,
        "dont_fragment": True,
    } == found["settings"]
    assert {"min_ns", "mean_ns", "p95_ns", "p99_ns", "deviation_ns"} < found["rtt"].keys()
    assert {"forward_ns", "reverse_ns"} == found["jitter"].keys()
    assert 2 == main(["--json", "stamp", "127.0.0.1", "--port", str(free_port()), *FAST, "--wait", "5ms"])
    assert "nothing listens" in msgspec.json.decode(capsys.readouterr().out)["hint"]


def test_packets_leave_from_the_address_and_port_wanted():
    """--source also says which family a name is looked up in."""
    port = free_port()
    with peer_reflector() as peer:
        words = ["stamp", "localhost", "--port", str(peer.port), *FAST]
        assert 0 == main([*words, "--source", "127.0.0.1", "--source-port", str(port)])
    assert {port} == set(peer.sources)


def test_a_location_is_in_words_and_in_fields(capsys):
    """Our own reflector's answer, seen from here."""
    with reflecting() as running:
        stop = Event()
        server = Thread(target=lambda: pump(running.poller, stop.is_set))
        server.start()
        words = ["127.0.0.1", "--port", str(running.target[1]), *FAST, "--tlv", "location"]
        port = free_port()
        try:
            assert 0 == main(["stamp", *words, "--source-port", str(port)])
            assert 0 == main(["--json", "stamp", *words])
        finally:
            stop.set()
            server.join()
    text, record = capsys.readouterr().out.rstrip().rsplit("\n", 1)
    assert f"location    from 127.0.0.1 port {port} to 127.0.0.1 port {running.target[1]}" in text
    assert "127.0.0.1" == msgspec.json.decode(record)["place"]["source"]


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
        (("--source", "here"), "'here' does not appear to be an IPv4 or IPv6 address"),
        (("--source-port", "0"), "0 is not in the range 1<=x<=65535"),
        (("--source-port", "4000", "--fresh"), "--source-port is one port, and --fresh wants one for each packet"),
        (("--source", "192.0.2.1", *FAST), "from 192.0.2.1 port any: Cannot assign requested address"),
        (("-6", *FAST), "127.0.0.1 port 862: "),
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
