"""Small files that nobody else may read, replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

from meshwatchd.model.errors import KernelError

PRIVATE_MODE = 0o600
PRIVATE_DIRECTORY_MODE = 0o700


def write_privately(path: Path, text: str, *, is_durable: bool = False) -> None:
    """Write a file with mode 0600; a reader sees the old or the new one, never half of it.

    Args:
        path: its directory is made when missing.
        text: ASCII.
        is_durable: wait until the disk has it, which may take long.

    Raises:
        KernelError: the disk is full or read-only; the old file is as it was.
    """
    draft = path.with_name(path.name + ".draft")
    try:
        path.parent.mkdir(mode=PRIVATE_DIRECTORY_MODE, parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(draft, flags, PRIVATE_MODE), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise KernelError(f"write {path}", error.errno or 0, str(error.strerror)) from error
