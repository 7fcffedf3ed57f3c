"""A shell in a guest, on this terminal: for looking at a lab this kernel cannot hold.

our terminal (raw) <-> UNIX socket of QEMU <-> /dev/hvc0 <-> bash in the guest
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import socket
import sys
import termios
import tty
from collections.abc import Iterator

from netnslab.backends.model import BackendError
from netnslab.backends.vm import started

DEVICE = "/dev/hvc0"

# Whoever is away for so long has forgotten it.
LIMIT_S = 24 * 3600.0

_CHUNK_BYTES = 4096


def run_shell(before: str) -> None:
    """Boot a guest and hand this terminal to a shell in it, until the shell ends.

    Args:
        before: shell command to run first, such as one that brings up a lab; empty for none.

    Raises:
        BackendError: standard input is no terminal, or no guest would boot.
    """
    if not sys.stdin.isatty():
        raise BackendError("a shell needs a terminal; `run` takes a command")
    size = os.get_terminal_size()
    prepare = f"stty rows {size.lines} cols {size.columns}; {before}"
    # Without start-up files, which would set another PATH: the programs are to be those of the caller.
    inside = f"{prepare}; PS1='guest:\\w# ' exec bash --noprofile --norc -i"
    session = f"exec setsid --ctty sh -c {shlex.quote(inside)} <{DEVICE} >{DEVICE} 2>&1"
    print("booting a guest; it takes some ten seconds", file=sys.stderr)
    with started(["sh", "-c", session], limit_s=LIMIT_S) as guest, socket.socket(socket.AF_UNIX) as line:
        line.connect(str(guest.terminal))
        with _raw(sys.stdin.fileno()):
            _converse(line, sys.stdin.fileno(), sys.stdout.fileno())
    print("the guest is gone, and all that was in it", file=sys.stderr)


def _converse(line: socket.socket, keyboard: int, screen: int) -> None:
    """Copy both ways until QEMU hangs up."""
    while True:
        ready, _, _ = select.select([line.fileno(), keyboard], [], [])
        if line.fileno() in ready:
            said = line.recv(_CHUNK_BYTES)
            if not said:
                return
            os.write(screen, said)
        if keyboard in ready:
            line.sendall(os.read(keyboard, _CHUNK_BYTES))


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    before = termios.tcgetattr(terminal)
    tty.setraw(terminal)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
