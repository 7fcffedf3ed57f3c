"""What a machine of a guest is made of: made outside, where there is a network, and found by the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOT, PACKAGES = "MESHWATCH_LAB_MACHINE", "MESHWATCH_LAB_PACKAGES"


class Supplies(NamedTuple):
    """What somebody has made.

    Attributes:
        root: of a machine with the package (`systemd_machine.install`): several folders, joined by colons.
        packages: a folder with `now.deb` and `later.deb`.
    """

    root: str
    packages: Path


def announce(root: str, packages: Path) -> dict[str, str]:
    """The environment of a guest in which `supplies` finds them."""
    return {ROOT: root, PACKAGES: str(packages)}


def are_there() -> bool:
    """Whether somebody has announced any."""
    return ROOT in os.environ


def supplies() -> Supplies:
    """Those that were announced."""
    return Supplies(os.environ[ROOT], Path(os.environ[PACKAGES]))
