"""An engine as bytes: complete, of this version, and from a file that nobody else could write."""

from __future__ import annotations

import hashlib

import pytest

import meshwatchd
from meshwatchd.adapters.storage.journal.checkpoint import MAGIC, dump, load
from meshwatchd.model.errors import JournalError
from meshwatchd.model.events import Tick
from tests.support.bench import ready


def _stored(path, bench):
    path.write_bytes(dump(bench.engine, at_ns=bench.now, wall_ns=77))
    path.chmod(0o600)
    return path


def _signed(content):
    return MAGIC + hashlib.blake2b(content, digest_size=16).digest() + content


def test_a_loaded_engine_goes_on_as_the_original(tmp_path):
    """A thousand ticks, to the last port and nonce."""
    bench = ready("a1")
    header, engine = load(_stored(tmp_path / "x.state", bench))
    assert (meshwatchd.__version__, "a1", bench.now, 77) == (
        header.program,
        header.node,
        header.at_ns,
        header.wall_ns,
    )
    for _ in range(1_000):
        at = bench.engine.deadline()
        assert at is not None
        assert at == engine.deadline()
        assert bench.engine.handle(Tick(), at) == engine.handle(Tick(), at)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda content: b"", "it is no checkpoint of a journal"),
        (lambda content: b"MWJ0" + content[4:], "it is no checkpoint of a journal"),
        (lambda content: content[:9], "it is no checkpoint of a journal"),
        (lambda content: content[:-20], "its bytes are not those that were written"),
        (lambda content: _signed(content[20:24] + b"\xc1" + content[25:]), "its header is damaged"),
        (lambda content: _signed(content[20:-20]), "the checkpoint is damaged"),
        (
            lambda content: _signed(content[20:].replace(meshwatchd.__version__.encode(), b"9.9.9")),
            "written by",
        ),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path, spoil, problem):
    """With the file and a remedy."""
    path = _stored(tmp_path / "x.state", ready("a1"))
    content = path.read_bytes()
    assert content.startswith(MAGIC)
    path.write_bytes(spoil(content))
    with pytest.raises(JournalError, match=problem) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_no_bit_of_it_may_be_another(tmp_path):
    """Whatever it stands for: unpickled, it would be an engine that never was, or a traceback in the middle of it."""
    path = _stored(tmp_path / "x.state", ready("a1"))
    content = path.read_bytes()
    for place in range(0, len(content), len(content) // 200):
        path.write_bytes(content[:place] + bytes((content[place] ^ 1 << place % 8,)) + content[place + 1 :])
        with pytest.raises(JournalError, match=r"its bytes are not those|it is no checkpoint"):
            load(path)


def test_a_file_that_others_can_write_is_not_run(tmp_path):
    """To load it is to run it."""
    path = _stored(tmp_path / "x.state", ready("a1"))
    path.chmod(0o622)
    with pytest.raises(JournalError, match="others can write to it"):
        load(path)
    with pytest.raises(JournalError, match="No such file"):
        load(tmp_path / "y.state")
