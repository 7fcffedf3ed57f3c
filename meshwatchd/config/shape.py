"""Settings of the right shape from parsed TOML, with msgspec's complaints in the operator's words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import get_args

import msgspec

from meshwatchd.config.values import Finding
from meshwatchd.model.settings import Settings

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_WRONG_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")
_WRONG_CHOICE = re.compile(r"Invalid enum value (.*)")

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


def shape(document: Mapping[str, object]) -> Settings:
    """Convert a parsed TOML document.

    Raises:
        ShapeError: an unknown key, a wrong type, a missing key, or a value that is none of the choices.
    """
    try:
        return msgspec.convert(document, Settings)
    except msgspec.ValidationError as error:
        raise ShapeError(_explain(str(error), document)) from error


def element_key(section: str, index: int, name: object) -> str:
    """How an element of a list is called in a message: `mesh.node[3] (b2)`."""
    return f"{section}[{index}] ({name})" if isinstance(name, str) and name else f"{section}[{index}]"


def _explain(text: str, document: Mapping[str, object]) -> Finding:
    match = _PLACE.fullmatch(text)
    assert match is not None
    what, steps = match["what"], _parse_steps(match["path"] or "")
    key = _render_key(steps, document)
    if unknown := _UNKNOWN.fullmatch(what):
        return _explain_unknown(unknown[1], key, steps)
    if missing := _MISSING.fullmatch(what):
        return Finding(key=key, problem=f"{missing[1]} is missing", remedy=f"add {missing[1]} = ...")
    if wrong := _WRONG_TYPE.fullmatch(what):
        return _explain_type(wrong[1], wrong[2], key, _value_at(steps, document))
    if choice := _WRONG_CHOICE.fullmatch(what):
        choices = ", ".join(_choices(steps))
        return Finding(key=key, problem=f"{choice[1]} is none of the choices", remedy=f"write one of {choices}")
    return Finding(key=key, problem=what, remedy="see the commented sample meshwatchd.toml")


def _explain_unknown(name: str, key: str, steps: list[str | int]) -> Finding:
    known = [field.name for field in _fields_at(steps)]
    full = f"{key}.{name}" if key else name
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return Finding(key=full, problem="unknown key", remedy=f"did you mean {near[0]}?")
    elsewhere = [section for section, names in _sections() if name in names and section != key]
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


def _parse_steps(path: str) -> list[str | int]:
    """Split "mesh.node[3].pod_cidr" into its names and indices."""
    return [name or int(index) for name, index in _STEP.findall(path)]


def _render_key(steps: list[str | int], document: Mapping[str, object]) -> str:
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


def _value_at(steps: list[str | int], document: Mapping[str, object]) -> object:
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


def _fields_at(steps: list[str | int]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """The fields of the settings struct that a path leads to."""
    here: object = Settings
    for step in steps:
        here = get_args(here)[0] if isinstance(step, int) else _field_type(here, step)
    return _fields(here)


def _fields(here: object) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(here) if isinstance(here, type) and issubclass(here, msgspec.Struct) else ()


def _field_type(here: object, name: str) -> object:
    return next((field.type for field in _fields(here) if field.name == name), None)


def _choices(steps: list[str | int]) -> tuple[str, ...]:
    *parents, name = steps
    kind = next((field.type for field in _fields_at(parents) if field.name == name), None)
    return tuple(str(member.value) for member in kind) if isinstance(kind, type(Enum)) else ()


def _sections() -> Iterator[tuple[str, tuple[str, ...]]]:
    for section in _fields(Settings):
        yield section.name, tuple(field.name for field in _fields(section.type))
