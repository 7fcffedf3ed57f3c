"""SIGHUP: read the configuration again, elsewhere, and take over from it what can change while probes fly.

Only the secrets can. Sessions, replay windows and epochs stay, so that a rotation loses no probe. Any other
difference is told and waits for a restart: half of a new configuration would be one that nobody has written.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from meshwatchd.adapters.poller import Poller
from meshwatchd.model.outputs import Fact
from meshwatchd.model.process_facts import ConfigRefused, ConfigReloaded
from meshwatchd.runtime.boot import Boot, Refusal, changed_keys, decode
from meshwatchd.wire.auth import MeshSecret

READER_FD: Final = 3
"""The reader's end of the pipe, behind the standard three."""
_PIECE_BYTES: Final = 64 * 1024

SpawnReader = Callable[[int], int]
"""Starts a reader that writes to the given descriptor; returns its pid."""


def spawn_reader(config: str) -> SpawnReader:
    """How the real reader is started: the daemon's own program, told where to write what it has read."""

    def spawn(fd: int) -> int:
        argv = [sys.executable, "-P", "-m", "meshwatchd.runtime.main"]
        argv += ["--config", config, "--hand-over", str(READER_FD)]
        return os.posix_spawn(
            sys.executable,
            argv,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, READER_FD)],
            setsigmask=(),
            setsigdef=(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE),
        )

    return spawn


class Reloader:
    """One reload at a time.

    Args:
        use_secrets: takes over the secrets of a new boot; returns the key id that signs and those accepted.
        share: takes what later agents run on: the engine's settings, and the new secrets.
    """

    def __init__(
        self,
        *,
        poller: Poller,
        boot: Boot,
        spawn: SpawnReader,
        use_secrets: Callable[[Sequence[MeshSecret]], tuple[int, tuple[int, ...]]],
        share: Callable[[Boot], None],
        tell: Callable[[Fact], None],
    ) -> None:
        self._poller, self._boot, self._spawn = poller, boot, spawn
        self._use_secrets, self._share, self._tell = use_secrets, share, tell
        self._pid = 0
        self._pipe_fd = -1
        self._pieces: list[bytes] = []

    def start(self) -> None:
        """Begin to read; a reader that is still at it is ended, since the file may have changed under it."""
        self.close()
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(write_fd, True)
        try:
            self._pid = self._spawn(write_fd)
        except OSError as error:
            os.close(read_fd)
            self._tell(ConfigRefused(reason=f"{self._boot.config} cannot be read again: {error}"))
            return
        finally:
            os.close(write_fd)
        self._pipe_fd = read_fd
        self._poller.add(read_fd, self._on_readable)

    def close(self) -> None:
        """End a reader that is at work."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            self._end()

    def _on_readable(self, fd: int) -> None:
        piece = os.read(fd, _PIECE_BYTES)
        if piece:
            self._pieces.append(piece)
            return
        word = decode(b"".join(self._pieces))
        self._end()
        if isinstance(word, Refusal):
            self._tell(ConfigRefused(reason=word.reason))
        else:
            self._take(word)

    def _take(self, boot: Boot) -> None:
        signing_id, accepted_ids = self._use_secrets(boot.secrets) if boot.secrets else (0, ())
        if boot.secrets:
            settings = msgspec.structs.replace(self._boot.settings, auth=boot.settings.auth)
            self._share(msgspec.structs.replace(self._boot, settings=settings, secrets=boot.secrets))
        self._tell(
            ConfigReloaded(
                signing_key_id=signing_id,
                accepted_key_ids=accepted_ids,
                needs_restart=changed_keys(self._boot.settings, boot.settings),
            )
        )

    def _end(self) -> None:
        """The reader's end of the pipe closes when it dies, so there is no waiting here."""
        self._poller.forget(self._pipe_fd)
        os.close(self._pipe_fd)
        os.waitpid(self._pid, 0)
        self._pid, self._pipe_fd, self._pieces = 0, -1, []
