"""The addresses that names had before, in one small file of each user.

It is the user's own state directory, root's too: the daemon's belongs to a user without privileges, where root had
better write nothing.
"""

from __future__ import annotations

import os
import pwd
import time
from pathlib import Path
from typing import Final

import msgspec

from meshwatchd.adapters.storage.versioned_file import VersionedFile
from meshwatchd.model.service_check import Remembered

MAX_NAMES: Final = 256
MAX_ADDRESSES: Final = 8
"""Of one name: with it the file stays far below what is read back."""
MAX_BYTES: Final = 1 << 20
_NAME: Final = "meshwatchctl/services.json"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One name's addresses at an instant of Unix time."""

    addresses: tuple[str, ...]
    is_local: bool
    at_s: int


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """The file: answers by "name@server", since two clusters may name alike; the latest is the last."""

    version: int = 1
    answers: dict[str, Answer] = {}


class Memory:
    """What is remembered of one name.

    Args:
        name: absolute; server: that answers for it.
        path: of the file; by default the user's.
    """

    def __init__(self, name: str, server: str, path: Path | None = None) -> None:
        self._key = f"{name}@{server}"
        draft = f".{os.getpid()}.new"  # two runs of one user may write at once
        file = path or find_path()
        self._file = VersionedFile(file, Answers, version=1, max_bytes=MAX_BYTES, mode=0o600, draft=draft)

    def recall(self) -> tuple[Remembered | None, str]:
        """The name's last addresses, and what is wrong with the file."""
        content, problem = self._file.load()
        answer = content.answers.get(self._key) if content is not None else None
        if answer is None:
            return None, problem
        age_s = max(0, time.time_ns() // 1_000_000_000 - answer.at_s)
        return Remembered(addresses=answer.addresses, is_local=answer.is_local, age_s=age_s), problem

    def keep(self, addresses: tuple[str, ...], *, is_local: bool) -> str:
        """Remember an answer in the place of the one before; returns what is wrong, or nothing."""
        content, _ = self._file.load()
        answers = {key: each for key, each in (content or Answers()).answers.items() if key != self._key}
        answers[self._key] = Answer(
            addresses=addresses[:MAX_ADDRESSES], is_local=is_local, at_s=time.time_ns() // 1_000_000_000
        )
        kept = dict([*answers.items()][-MAX_NAMES:])
        return self._file.save(Answers(answers=kept), "the answer is not remembered")


def find_path() -> Path:
    """The file of this process's user (XDG Base Directory Specification).

    The home folder is the one of the user database: under sudo $HOME may be somebody else's.
    """
    given = os.environ.get("XDG_STATE_HOME", "")
    return (Path(given) if given.startswith("/") else _home() / ".local/state") / _NAME


def _home() -> Path:
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container's user need not be in the database
        return Path(os.environ.get("HOME") or "/")
