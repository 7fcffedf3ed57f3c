"""What a setting means: its default, its value in force, and its reason, from the docstrings of the settings."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator

import msgspec

from meshwatchd.config.shape import choices, unshape
from meshwatchd.model.settings import Settings


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One key of the file.

    Attributes:
        value: in force; equal to the default where the file does not mention it.
        choices: what may be written, where that is a choice.
        about: of its section, where it has no words of its own.
    """

    key: str
    value: object
    default: object
    about: str
    choices: tuple[str, ...] = ()


def list_settings(settings: Settings) -> Iterator[Setting]:
    """Every setting in the order of the file, but for the mesh, which has no defaults."""
    values, defaults = unshape(settings), unshape(Settings())
    assert isinstance(values, dict)
    assert isinstance(defaults, dict)
    for section in msgspec.structs.fields(Settings):
        if section.name == "mesh":
            continue
        summary, reasons = read_docstring(section.type)
        for field in msgspec.structs.fields(section.type):
            yield Setting(
                key=f"{section.name}.{field.name}",
                value=values[section.name][field.name],
                default=defaults[section.name][field.name],
                about=reasons.get(field.name, summary),
                choices=choices(field.type),
            )


def find_settings(settings: Settings, key: str) -> tuple[list[Setting], str]:
    """The settings of a key, of a section, or with that last part; and the nearest key where there is none."""
    listed = list(list_settings(settings))
    found = [each for each in listed if key in (each.key, each.key.partition(".")[0], each.key.partition(".")[2])]
    near = difflib.get_close_matches(key, [each.key for each in listed], n=1, cutoff=0.5)
    return found, near[0] if near else ""


def read_docstring(kind: type) -> tuple[str, dict[str, str]]:
    """A docstring's first part, and what it says of each attribute."""
    text = inspect.getdoc(kind) or ""
    summary, _, attributes = text.partition("\n\nAttributes:\n")
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE)
    return " ".join(summary.split()), {name: " ".join(reason.split()) for name, reason in entries}
