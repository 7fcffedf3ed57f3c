"""JSON objects of the API, kinds of them, and errors as the API answers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Object: TypeAlias = "dict[str, Json]"

REASONS: Mapping[int, str] = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Expired",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    504: "Timeout",
}
"""What a client goes by, beside the code (apimachinery, pkg/apis/meta/v1/types.go, StatusReason)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of objects.

    Attributes:
        group: empty for the core group.
        plural: its name in URLs.
        kind: its name in objects.
        subresources: such as `status`, whose part of an object is written by its own URL alone.
    """

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    is_namespaced: bool = False
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As `apiVersion` has it."""
        return f"{self.group}/{self.version}" if self.group else self.version


class ApiError(Exception):
    """A request that is refused; carries what the Status object says.

    Attributes:
        code: HTTP's.
        reason: by the code, unless given.
    """

    def __init__(self, code: int, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS.get(code, "Unknown")

    def status(self) -> Object:
        """The body of the answer, and the object of a watch's ERROR event."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def part(of: Mapping[str, Json], name: str) -> Object:
    """A member that is an object itself; empty where it is missing or something else."""
    found = of.get(name)
    return found if isinstance(found, dict) else {}


def text(of: Mapping[str, Json], name: str) -> str:
    """A member that is text; empty where it is missing or something else."""
    found = of.get(name)
    return found if isinstance(found, str) else ""


def name_of(item: Mapping[str, Json]) -> str:
    """metadata.name."""
    return text(part(item, "metadata"), "name")


def namespace_of(item: Mapping[str, Json]) -> str:
    """metadata.namespace; empty where there is none."""
    return text(part(item, "metadata"), "namespace")


def as_object(value: object) -> Object:
    """What a client has sent, which has to be an object.

    Raises:
        ApiError: it is something else.
    """
    if not isinstance(value, dict):
        raise ApiError(400, "the body is no JSON object")
    return cast("Object", value)
