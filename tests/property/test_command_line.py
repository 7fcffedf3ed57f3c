"""Whatever is typed, however it is read and wherever it is shown: an exit status and a sentence, and no traceback."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.cli import main as program
from tests.support.service_stage import HOST, tcp_server

WORDS = st.sampled_from(
    [
        *("--json", "--help", "--version", "-v", "-q", "--size", "--count", "0", "-1", "1s", "--fault", "local-fault"),
        *("--layer", "overlay", "--fresh", "--list", "--socket", "/nonexistent", "--config", "/dev/null", "--", "-"),
        *("explain", "show", "probe.port", "--since", "--healthy", "--timeout", "1ns", "--node", "b1", "--rank", "9"),
    ]
)
TEXT = (
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.just("\udcff") | st.just("9" * 400)
)
LOOKING = sorted(
    # Those that change this machine, write a file or wait are tried with words that end them first.
    set(program._COMMANDS) - {"sweep", "doctor", "stamp", "ping", "replay", "wait", "bundle"}
)


@settings(max_examples=150, deadline=None)
@given(verb=st.sampled_from(LOOKING) | TEXT, words=st.lists(WORDS | TEXT, max_size=5))
def test_no_argument_makes_a_traceback(verb, words):
    """An exception of ours would come out of main; click's are sentences."""
    status = program.main(["--socket", "/nonexistent/control.sock", verb, *words])
    assert status in {0, 1, 2, 3, 4, 64, 74, 77}


@pytest.fixture(scope="module")
def port():
    """A server's that speaks neither TLS nor HTTP."""
    with tcp_server(b"what?\r\n") as number:
        yield str(number)


SERVICE_WORDS = st.sampled_from(
    [
        *("--sni", "--alpn", "--http", "--tls", "--at", "127.9.9.9", "::1", "--last", "--preset", "linkerd-gateway"),
        *(
            "istio-eastwest",
            "--sni=a..b",
            "--sni=.x",
            "--domain",
            "a..b",
            ".x",
            "/",
            "h2",
            "shop.example",
            "x\r\nHost: y",
            "--json",
        ),
    ]
)


@settings(max_examples=150, deadline=None)
@given(words=st.lists(SERVICE_WORDS | TEXT, max_size=6))
def test_no_argument_of_a_service_makes_a_traceback(port, words):
    """At a DNS server to which there is no route, or at a server that answers everything at once; nothing waits."""
    words = ["service", "shop.default", "--dns", "fe80::1", "--no-api", "--at", HOST, "--port", port, *words]
    assert program.main(["--socket", "/nonexistent/control.sock", *words]) in {0, 1, 2, 64}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("stamp", 64),
        ("stamp 192.0.2.1 --count x", 64),
        ("ping", 64),
        ("service shop", 64),
        ("doctor --nonsense", 64),
        ("nonsense", 64),
        ("status", 3),
        ("replay /dev/null", 64),
    ],
)
def test_a_pipe_that_is_closed_early_is_no_error(command, expected):
    """`stamp ... 2>&1 | head -1`: whoever reads has gone before anything is said, and the exit status still tells."""
    reader, writer = os.pipe()
    os.close(reader)
    arguments = [sys.executable, "-m", "meshwatchd.cli.main", "--socket", "/nonexistent", *command.split()]
    done = subprocess.run(arguments, stdout=writer, stderr=writer, check=False, timeout=60)
    os.close(writer)
    assert expected == done.returncode


@pytest.mark.parametrize("where", ["2>&-", ">&- 2>&-", "2>/dev/full"])
def test_streams_that_are_missing_or_full_change_no_exit_status(where):
    """As under some supervisors."""
    line = f"{sys.executable} -m meshwatchd.cli.main --socket /nonexistent status {where}"
    assert 3 == subprocess.run(["bash", "-c", line], check=False, timeout=60).returncode


@pytest.mark.parametrize(
    "surroundings",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "xx_XX.nonsense", "TERM": "nonsense"},
        {"PYTHONIOENCODING": "latin-1", "COLUMNS": "1"},
        {"COLUMNS": "nonsense", "LINES": "-3", "TERM": ""},
        {"PYTHONIOENCODING": "ascii", "COLUMNS": "100000"},
    ],
)
@pytest.mark.parametrize("command", ["--help", "explain --list", "config explain policy", "status", "nönsense"])
def test_locales_and_sizes_of_terminals_break_nothing(command, surroundings):
    """Names of nodes are ASCII, arguments are not."""
    arguments = [sys.executable, "-m", "meshwatchd.cli.main", "--socket", "/nonexistent", *command.split()]
    done = subprocess.run(
        [argument.encode() for argument in arguments],
        env={**os.environ, **surroundings},
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in {0, 3, 64}
    assert b"Traceback" not in done.stdout + done.stderr
