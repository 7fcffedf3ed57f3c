"""What can go wrong in the lab, in sentences an operator can act on."""

from __future__ import annotations


class LabError(Exception):
    """The lab could not be built, found or changed; the message says what to do about it."""


class TopologyError(LabError):
    """A topology file is wrong.

    Attributes:
        path: the file.
        key: where in the file, such as `node[2].pod_cidr`.
    """

    def __init__(self, path: str, key: str, problem: str) -> None:
        super().__init__(f"{path}: {key}: {problem}")
        self.path = path
        self.key = key
