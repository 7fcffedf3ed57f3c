"""What a machine of a guest is made of: made outside, where there is a network, and found by the environment."""

from __future__ import annotations

import os

VARIABLE = "MESHWATCH_LAB_MACHINE"
"""The roots of a machine with the package, joined by colons. A guest inherits it."""


def announce(root: str) -> dict[str, str]:
    """The environment of a guest in which `root` finds what `systemd_machine.install` has made."""
    return {VARIABLE: root}


def is_there() -> bool:
    """Whether somebody has made one."""
    return VARIABLE in os.environ


def root() -> str:
    """The one that was announced."""
    return os.environ[VARIABLE]
