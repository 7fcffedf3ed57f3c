"""Settings of the right shape from parsed TOML, with msgspec's complaints in the operator's words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Annotated, Literal, TypeVar, get_args, get_origin

import msgspec

from meshwatchd.config.values import Finding
from meshwatchd.model.setting_types import Duration
from meshwatchd.model.units import format_duration, parse_duration, render_duration

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WRONG_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_WRONG_CHOICE = re.compile(r"Invalid enum value (.*)")
_OUT_OF_BOUNDS = re.compile(r"Expected `\w+` (?:[<>]=|of length|matching regex) .*", re.DOTALL)

_Path = list[str | int]

Kind = TypeVar("Kind", bound=msgspec.Struct)

_TYPE_WORDS = {
    "str": ("a string", 'put it in quotes: "..."'),
    "int": ("a whole number", "write it without quotes or decimal point"),
    "bool": ("true or false", "write true or false, without quotes"),
    "array": ("a list", "write it in brackets: [...]"),
    "object": ("a table", "write it as a section in brackets"),
}


class ShapeError(Exception):
    """A document that does not fit the settings; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(finding.problem)


def shape(document: Mapping[str, object], kind: type[Kind]) -> Kind:
    """Convert a parsed TOML document to settings of a kind, whose fields are the sections of the file.

    Raises:
        ShapeError: an unknown key, a wrong type, a missing key, or a value outside of its choices or bounds.
    """

    def measure(value: object, steps: _Path) -> object:
        try:
            return parse_duration(value if isinstance(value, str) else "")
        except ValueError as error:
            problem, _, remedy = str(error).partition("; ")
            if not isinstance(value, str):
                problem = f"must be a duration, not {value!r}"
            finding = Finding(key=_render_key(steps, document), problem=problem, remedy=remedy)
            raise ShapeError(finding) from error

    try:
        return msgspec.convert(_map_durations(document, kind, measure, []), kind)
    except msgspec.ValidationError as error:
        raise ShapeError(_explain(str(error), document, kind)) from error


def unshape(settings: msgspec.Struct) -> object:
    """Settings as the document that `shape` takes. None stays, for which TOML has no word."""

    def render(value: object, _steps: _Path) -> object:
        return format_duration(value) if isinstance(value, int) else value

    return _map_durations(msgspec.to_builtins(settings), type(settings), render, [])


def bare(kind: object) -> object:
    """A setting's type without its bounds."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def choices(kind: object) -> tuple[str, ...]:
    """What may be written where there are only a few values."""
    kind = bare(kind)
    if get_origin(kind) is Literal:
        return tuple(str(each) for each in get_args(kind))
    return tuple(str(member.value) for member in kind) if isinstance(kind, type(Enum)) else ()


def _map_durations(value: object, kind: object, change: Callable[[object, _Path], object], steps: _Path) -> object:
    """A document with another form of each duration."""
    if get_args(Duration)[1] in get_args(kind):
        return change(value, steps)
    if isinstance(value, Mapping):
        kinds = {field.name: field.type for field in _fields(kind)}
        return {name: _map_durations(each, kinds.get(name), change, [*steps, name]) for name, each in value.items()}
    if isinstance(value, list | tuple) and (arguments := get_args(bare(kind))):
        return [_map_durations(each, arguments[0], change, [*steps, index]) for index, each in enumerate(value)]
    return value


def element_key(section: str, index: int, name: object) -> str:
    """How an element of a list is called in a message: `mesh.node[3] (b2)`."""
    return f"{section}[{index}] ({name})" if isinstance(name, str) and name else f"{section}[{index}]"


def _explain(text: str, document: Mapping[str, object], kind: type[msgspec.Struct]) -> Finding:
    match = _PLACE.fullmatch(text)
    assert match is not None
    what, steps = match["what"], _parse_steps(match["path"] or "")
    key = _render_key(steps, document)
    if unknown := _UNKNOWN.fullmatch(what):
        return _explain_unknown(unknown[1], key, steps, kind)
    if missing := _MISSING.fullmatch(what):
        return Finding(key=key, problem=f"{missing[1]} is missing", remedy=f"add {missing[1]} = ...")
    if wrong := _WRONG_TYPE.fullmatch(what):
        return _explain_type(wrong[1], wrong[2], key, _value_at(steps, document))
    if choice := _WRONG_CHOICE.fullmatch(what):
        remedy = f"write one of {', '.join(choices(_kind_at(steps, kind)))}"
        return Finding(key=key, problem=f"{choice[1]} is none of the choices", remedy=remedy)
    if _OUT_OF_BOUNDS.fullmatch(what):
        return _explain_bounds(key, _kind_at(steps, kind), _value_at(steps, document))
    return Finding(key=key, problem=what, remedy="see the commented sample meshwatchd.toml")


def _explain_unknown(name: str, key: str, steps: _Path, kind: type[msgspec.Struct]) -> Finding:
    known = [field.name for field in _fields(_kind_at(steps, kind))]
    full = f"{key}.{name}" if key else name
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return Finding(key=full, problem="unknown key", remedy=f"did you mean {near[0]}?")
    elsewhere = [section for section, names in _sections(kind) if name in names and section != key]
    if elsewhere:
        return Finding(key=full, problem="unknown key", remedy=f"{name} belongs in [{elsewhere[0]}]")
    return Finding(key=full, problem="unknown key", remedy=f"remove it; known here: {', '.join(known)}")


def _explain_type(expected: str, got: str, key: str, value: object) -> Finding:
    wanted, remedy = _TYPE_WORDS.get(expected.partition(" | ")[0], (expected, f"write {expected}"))
    found = _TYPE_WORDS.get(got, (f"a {got}", ""))[0]
    if (expected, got) == ("array", "object"):
        remedy = f"write [[{key}]] with two brackets: there may be several"
    if isinstance(value, str | int | float):
        found = f"{value!r}"
    return Finding(key=key, problem=f"must be {wanted}, not {found}", remedy=remedy)


def _explain_bounds(key: str, kind: object, value: object) -> Finding:
    """A value of the right type outside of its bounds; their reason is the description of the bounds."""
    metas = [each for each in get_args(kind)[1:] if isinstance(each, msgspec.Meta)]
    words: dict[str, str] = next((each.extra for each in metas if each.extra), {})
    if isinstance(value, str) and words:
        if "\0" in value:
            return Finding(key=key, problem=f"{value!r} contains a NUL byte", remedy="write it without")
        return Finding(key=key, problem=f"{value!r} {words['problem']}", remedy=words["remedy"])
    bounds = metas[-1]
    why = f" ({bounds.description})" if bounds.description else ""
    if isinstance(value, list):
        problem = f"{len(value)} are listed"
        return Finding(key=key, problem=problem, remedy=f"keep at most {bounds.max_length}{why}")
    render = render_duration if isinstance(value, str) else str
    least, most = (render(int(bound)) if bound is not None else "" for bound in (bounds.ge, bounds.le))
    remedy = f"write {least} to {most}" if most else f"write {least} or more"
    return Finding(key=key, problem=f"{value!r} is out of range", remedy=f"{remedy}{why}")


def _parse_steps(path: str) -> _Path:
    """Split "mesh.node[3].pod_cidr" into its names and indices."""
    return [name or int(index) for name, index in _STEP.findall(path)]


def _render_key(steps: _Path, document: Mapping[str, object]) -> str:
    key = ""
    value: object = document
    for step in steps:
        value = _descend(value, step)
        if isinstance(step, int):
            name = value.get("name") if isinstance(value, dict) else None
            key = element_key(key, step, name)
        else:
            key = f"{key}.{step}" if key else step
    return key


def _value_at(steps: _Path, document: Mapping[str, object]) -> object:
    value: object = document
    for step in steps:
        value = _descend(value, step)
    return value


def _descend(value: object, step: str | int) -> object:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and step < len(value):
        return value[step]
    return None


def _kind_at(steps: _Path, kind: type[msgspec.Struct]) -> object:
    """The type that a path leads to, with its bounds."""
    here: object = kind
    for step in steps:
        here = get_args(bare(here))[0] if isinstance(step, int) else _field_type(here, step)
    return here


def _fields(here: object) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(here) if isinstance(here, type) and issubclass(here, msgspec.Struct) else ()


def _field_type(here: object, name: str) -> object:
    return next((field.type for field in _fields(here) if field.name == name), None)


def _sections(kind: type[msgspec.Struct]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for section in _fields(kind):
        yield section.name, tuple(field.name for field in _fields(section.type))
