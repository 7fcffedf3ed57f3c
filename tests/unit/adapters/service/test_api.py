"""A program of its own that asks the API: its answer, its refusal, its silence."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.service.api import ask_api
from meshwatchd.model.service_check import ApiFacts
from tests.support.example_services import NONE_READY

LIMIT_S = 1.0


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A program in the way of PATH, which does what a test writes into it."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def write(script):
        path = tmp_path / "asks-the-api"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path.name

    return write


def _ask(name):
    async def run():
        return await ask_api("shop.default", asyncio.get_running_loop().time() + LIMIT_S, name)

    return asyncio.run(run())


def test_its_answer_is_what_the_api_says(program):
    """The service is named on its command line."""
    answer = msgspec.json.encode(NONE_READY).decode()
    assert (NONE_READY, "") == _ask(program(f"[ \"$*\" = 'service shop.default' ] && echo '{answer}'"))
    assert (ApiFacts(), "") == _ask(program("echo '{}'"))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo one >&2; echo kubeconfig: cannot be used >&2; exit 2", "asks-the-api: kubeconfig: cannot be used"),
        ("exit 3", "asks-the-api: exit status 3"),
        ("echo what", "kube answer: not understood"),
        ("echo '{\"is_imported\": 7}'", "kube answer: not understood"),
    ],
)
def test_what_is_no_answer_is_a_reason(program, script, expected):
    """Its last line, or how it has ended."""
    facts, problem = _ask(program(script))
    assert facts is None
    assert problem.startswith(expected)


def test_a_program_that_hangs_is_killed_in_time(program, tmp_path):
    """Nothing of it stays."""
    name = program(f"echo $$ >{tmp_path}/pid; exec sleep 60")
    began = time.monotonic()
    assert (None, "asks-the-api did not answer in time") == _ask(name)
    assert time.monotonic() - began < LIMIT_S + 0.5
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_program_that_is_not_there_is_said_to_be_missing():
    """As on most nodes."""
    assert (None, "asks-no-api is not installed here") == _ask("asks-no-api")
