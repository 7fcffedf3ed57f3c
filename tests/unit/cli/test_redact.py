"""What leaves a node for strangers."""

from __future__ import annotations

import pytest

from meshwatchd.cli.redact import Redactor

KEY = b"L6Yk4ScDtGWXVvhNWZJBnDDf/tkZbWWcJmQkbQV1qzQ="


@pytest.mark.parametrize(
    "line",
    [
        b"PrivateKey = " + KEY,
        b'  preshared_key = "' + KEY + b'"',
        b'"api_token": "hunter2-hunter2"',
        b"password=hunter2-hunter2",
        b"-----BEGIN " + b"PRIVATE KEY-----\nhunter2-hunter2\n-----END " + b"PRIVATE KEY-----",
    ],
)
@pytest.mark.parametrize("is_anonymous", [True, False])
def test_secrets_never_stay(line, is_anonymous):
    """Whoever put them there, and whether or not names are kept."""
    cleaned = Redactor(is_anonymous=is_anonymous).clean(b"before\n" + line + b"\nafter\n")
    assert KEY not in cleaned
    assert b"hunter2" not in cleaned
    assert b"[removed]" in cleaned
    assert cleaned.startswith(b"before\n")
    assert cleaned.endswith(b"after\n")


def test_names_and_paths_of_key_files_stay():
    """They help, and open nothing."""
    line = b'key_file = "/etc/meshwatchd/mesh.key"\nnode = "b3"\n'
    assert line == Redactor(is_anonymous=False).clean(line)


def test_the_same_thing_has_the_same_name_everywhere():
    """In JSON, in tables, in paths, and inside sentences."""
    redactor = Redactor(is_anonymous=True)
    events = b'{"node":"b3","relays":["b1","a1"],"location":"onprem","because":["b1 answers on 10.2.0.11"]}\n'
    table = b"OK  to onprem: every layer answers; traffic on path b1-a1 (10.2.0.11:51820, fd00::1)\nb1\tabout\n"
    for data in (events, table):
        redactor.learn(data)
    told = redactor.clean(events).decode(), redactor.clean(table).decode()

    assert 'relays":["node2","node3"]' in told[0]
    assert "node2 answers on address1" in told[0]
    assert told[1] == (
        "OK  to location1: every layer answers; traffic on path node2-node3 (address1:51820, address2)\nnode2\tabout\n"
    )


def test_names_with_hyphens_are_found_inside_of_paths_and_before_colons():
    """The longest name counts, whatever it is joined to."""
    redactor = Redactor(is_anonymous=True)
    redactor.learn(b'{"relays":["fw1","paris-fw1","tokyo-fw1"]}')

    assert b"path node2-node3: node1, fw2" == redactor.clean(b"path paris-fw1-tokyo-fw1: fw1, fw2")


def test_keys_and_macs_are_renamed_and_loopback_is_not():
    """Public keys tell who it is; 127.0.0.1 tells nothing. Versions and times are no addresses."""
    redactor = Redactor(is_anonymous=True)
    text = b"peer " + KEY + b" at 0a:58:0A:f4:04:00, 127.0.0.1, 0.1.0, 03:12:07.123, 2026-03-01T03:12:07.123Z\n"
    assert b"peer key1 at mac1, 127.0.0.1, 0.1.0, 03:12:07.123, 2026-03-01T03:12:07.123Z\n" == redactor.clean(text)


def test_words_of_ours_are_no_names():
    """A node whose location is not known is in none."""
    redactor = Redactor(is_anonymous=True)
    redactor.learn(b'{"location":"none","culprit":""}')
    assert b"fault none" == redactor.clean(b"fault none")
