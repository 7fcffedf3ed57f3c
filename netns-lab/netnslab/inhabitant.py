"""Whoever lives in a lab: a node, a pod, or the wide area. Runs commands where they live."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from netnslab.errors import LabError
from netnslab.namespaces import Space

Stream = int | IO[str] | IO[bytes] | None
"""What subprocess accepts as a standard stream: a file, a descriptor, PIPE, DEVNULL, or None to inherit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inhabitant:
    """A place commands can run in.

    Attributes:
        name: `b3`, `pod/b3` or `wan`.
        ip: the address others reach it by; empty for the wide area.
    """

    name: str
    ip: str
    space: Space

    def run(
        self,
        argv: Sequence[str],
        *,
        check: bool = False,
        input: str | None = None,  # noqa: A002 - subprocess calls it so
        timeout: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with its output captured as text.

        Args:
            argv: program and arguments.
            check: raise CalledProcessError on a non-zero status; what the command complained about is added
            as a note.
            input: text for its standard input; without it, there is none.
            timeout: seconds after which it is killed and TimeoutExpired raised.
            env: variables added to the environment.
        """
        result = subprocess.run(
            self.space.command(argv),
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=_merged(env),
            **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}),
        )
        if check and result.returncode != 0:
            error = subprocess.CalledProcessError(result.returncode, list(argv), result.stdout, result.stderr)
            error.add_note(f"in {self.name}: {result.stderr.strip() or result.stdout.strip() or 'no output'}")
            raise error
        return result

    def popen(
        self,
        argv: Sequence[str],
        *,
        stdin: Stream = subprocess.DEVNULL,
        stdout: Stream = None,
        stderr: Stream = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a command and return at once. Its process id is the command's own; its pipes carry text.

        It leads a session of its own, as a service does: kernels share the processor between sessions. Whoever starts
        it ends it; what is forgotten ends with the lab.
        """
        return subprocess.Popen(
            self.space.command(argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            env=_merged(env),
            start_new_session=True,
        )

    def batch(self, tool: str, lines: Sequence[str]) -> None:
        """Feed `ip` or `bridge` all lines in one process, in the network namespace only.

        The machine's own mounts stay visible, because lines name the files that pin other namespaces.

        Raises:
            LabError: a line failed; the message shows it.
        """
        if not lines:
            return
        network = Space(name=self.space.name, directory=self.space.directory, kinds=self.space.kinds[:1])
        result = subprocess.run(
            network.command([tool, "-batch", "-"]),
            check=False,
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
        )
        if result.returncode != 0:
            raise LabError(f"{tool} -batch in {self.name}: {_quote_failure(result.stderr, lines)}")


def _merged(env: Mapping[str, str] | None) -> dict[str, str] | None:
    return None if env is None else {**os.environ, **env}


def _quote_failure(stderr: str, lines: Sequence[str]) -> str:
    """iproute2's complaint together with the line it is about ("Command failed -:7" counts from 1)."""
    complaint, _, number = stderr.strip().rpartition("Command failed -:")
    if not number.isdigit() or int(number) > len(lines):
        return " ".join(stderr.split())
    return f"{lines[int(number) - 1]!r}: {' '.join(complaint.split())}"
