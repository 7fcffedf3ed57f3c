"""The interfaces in Varlink's own language, made from the types that are sent: a client made from it fits.

Source: https://varlink.org/Interface-Definition.
"""

from __future__ import annotations

import builtins
import inspect
from functools import cache

import msgspec
from msgspec import inspect as types

from meshwatchd.adapters.control.interface import CONTROL, METHODS, SERVICE
from meshwatchd.model.ids import Layer

INTERFACES = (SERVICE, CONTROL)

_SERVICE = """\
# The Varlink Service Interface is provided by every varlink service.
interface org.varlink.service

# Get a list of all the interfaces a service provides and information about the implementation.
method GetInfo() -> (
  vendor: string,
  product: string,
  version: string,
  url: string,
  interfaces: []string
)

# Get the description of an interface that is implemented by this service.
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound (interface: string)
error MethodNotFound (method: string)
error MethodNotImplemented (method: string)
error InvalidParameter (parameter: string)
error PermissionDenied ()
error ExpectedMore ()
"""

_ERRORS = """\
# The engine has not reported yet.
error NotReady (reason: string)

# The engine did not answer in time; whether it acted is to be seen in Status.
error NotAnswered (reason: string)

error TooManyClients (limit: int)
"""

_NAMES = {
    "Status": "Snapshot",
    "FindingStatus": "Defect",
    "LocalView": "View",
    "BisectResult": "Bisection",
    "SeriesCounts": "Series",
    "PeerCounts": "PeerSeries",
    "TapReport": "Tap",
}
"""Of types, where it is not that of the class without "Status": clients have been made from these."""


@cache
def describe(interface: str) -> str:
    """The description of one of `INTERFACES`."""
    if interface == SERVICE:
        return _SERVICE
    layers = ", ".join(f"{layer.value} {layer.name.lower()}" for layer in Layer)
    found: dict[str, str] = {}
    methods = [
        f"{_comment(method.about)}method {name}{_fields(method.takes, found)} -> {_fields(method.gives, found)}\n"
        for name, method in METHODS.items()
    ]
    head = f"""\
# What meshwatchd sees, why it thinks so, what it did, and what it is to do.
# Instants are nanoseconds of CLOCK_MONOTONIC, durations are nanoseconds. Layers: {layers}.
interface {CONTROL}
"""
    return "\n".join((head, *found.values(), *methods, _ERRORS))


def _fields(kind: type[msgspec.Struct], found: dict[str, str]) -> str:
    """The fields of a type in parentheses; types that they need are put into `found`, by name."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    lines = [f"{field.encode_name}: {_render(field.type, found)}" for field in info.fields]
    return f"(\n  {f',{chr(10)}  '.join(lines)}\n)" if lines else "()"


def _render(kind: types.Type, found: dict[str, str]) -> str:
    match kind:
        case types.BoolType():
            return "bool"
        case types.IntType():
            return "int"
        case types.FloatType():
            return "float"
        case types.StrType():
            return "string"
        case types.EnumType(cls=cls):
            return "int" if issubclass(cls, int) else "string"
        case types.UnionType(types=parts):
            (part,) = (part for part in parts if not isinstance(part, types.NoneType))
            return f"?{_render(part, found)}"
        case types.VarTupleType(item_type=item) | types.TupleType(item_types=(item, *_)):
            return f"[]{_render(item, found)}"
        case types.DictType(value_type=types.CustomType(cls=builtins.object)):
            return "object"
        case types.DictType(value_type=value):
            return f"[string]{_render(value, found)}"
        case types.StructType(cls=cls):
            return _named(cls, found)
        case _:
            raise TypeError(f"Varlink has no type for {kind}")


def _named(cls: type[msgspec.Struct], found: dict[str, str]) -> str:
    name = _NAMES.get(cls.__name__, cls.__name__.removesuffix("Status"))
    if name not in found:
        fields = _fields(cls, found)
        found[name] = f"{_comment(inspect.getdoc(cls) or '')}type {name} {fields}\n"
    return name


def _comment(text: str) -> str:
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())
