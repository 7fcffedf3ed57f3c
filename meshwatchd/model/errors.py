"""The errors meshwatchd raises, each naming a place and a remedy.

The core raises none of them for the world's misbehaviour: there, a bad packet or a refused change is an event.
"""

from __future__ import annotations


class MeshwatchError(Exception):
    """The root of every error this program raises on purpose."""


class ConfigError(MeshwatchError):
    """A setting that cannot be used.

    Args:
        path: the file it was read from.
        key: the key's dotted path inside the file; empty when the file as a whole is at fault.
        problem: what is wrong with it.
        remedy: what to write instead.
    """

    def __init__(self, path: str, key: str, problem: str, remedy: str) -> None:
        self.path, self.key, self.problem, self.remedy = path, key, problem, remedy
        place = f"{path}: {key}" if key else path
        super().__init__(f"{place}: {problem}; {remedy}")


class KernelError(MeshwatchError):
    """The kernel refused an operation.

    Args:
        op: the operation in the operator's words, as "add rule 5460 lookup 7701".
        errno: the positive error number of the netlink acknowledgement.
        text: the kernel's own explanation (NLMSGERR_ATTR_MSG), or what the error number stands for.
    """

    def __init__(self, op: str, errno: int, text: str) -> None:
        self.op, self.errno, self.text = op, errno, text
        super().__init__(f"{op}: {text} (errno {errno})")


class DecodeError(MeshwatchError):
    """Bytes that are not what they claim to be.

    Args:
        source: where the bytes came from, as "stamp" or "link".
        reason: the first thing found wrong with them.
        remedy: what an operator can do about it; empty where nobody knows.

    Attributes:
        is_noted: `model.decoding` has counted it.
    """

    def __init__(self, source: str, reason: str, remedy: str = "") -> None:
        self.source, self.reason, self.remedy = source, reason, remedy
        self.is_noted = False
        super().__init__(source, reason, remedy)

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}{f'; {self.remedy}' if self.remedy else ''}"


class JournalError(MeshwatchError):
    """A journal that cannot be replayed.

    Args:
        path: the file.
        problem: what is wrong with it.
        remedy: what to do instead.
    """

    def __init__(self, path: object, problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = path, problem, remedy
        super().__init__(f"{path}: {problem}; {remedy}")


class ControlError(MeshwatchError):
    """A control request that cannot be answered; `code` becomes the exit status of meshwatchctl."""

    def __init__(self, code: int, problem: str) -> None:
        self.code = code
        super().__init__(problem)


class ProfileError(MeshwatchError):
    """A mesh profile cannot make sense of what it was shown."""
