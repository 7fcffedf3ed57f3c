"""The interface's description is made of the types, in the words of Varlink's language."""

from __future__ import annotations

import re

import msgspec
import pytest

from meshwatchd.adapters.control import description
from meshwatchd.adapters.control.description import INTERFACES, describe
from meshwatchd.adapters.control.interface import CONTROL, METHODS, Method, NoParameters


class PartStatus(msgspec.Struct):
    """A part."""

    weight: float


class WholeReply(msgspec.Struct):
    """Of Whole."""

    parts: tuple[PartStatus, ...]
    counters: dict[str, int]
    last: PartStatus | None
    ends: tuple[str, str]
    events: tuple[dict[str, object], ...]
    is_over: bool


class Odd(msgspec.Struct):
    """It has bytes."""

    data: bytes


def test_fields_are_described_by_their_types(monkeypatch):
    """All that is sent, with what it is made of, and None as `?`."""
    monkeypatch.setattr(description, "METHODS", {"Whole": Method("All of it.", NoParameters, WholeReply)})
    text = describe.__wrapped__(CONTROL)

    assert "# A part.\ntype Part (\n  weight: float\n)\n" in text
    fields = "parts: []Part,\n  counters: [string]int,\n  last: ?Part,\n  ends: []string,\n  events: []object,\n"
    assert f"# All of it.\nmethod Whole() -> (\n  {fields}  is_over: bool\n)\n" in text


def test_a_type_without_a_word_in_the_language_is_refused(monkeypatch):
    """A programmer's mistake, found by the first who asks."""
    monkeypatch.setattr(description, "METHODS", {"Odd": Method("", NoParameters, Odd)})
    with pytest.raises(TypeError, match="Varlink has no type"):
        describe.__wrapped__(CONTROL)


@pytest.mark.parametrize("name", ["Snapshot", "Defect", "View", "Bisection", "Series", "PeerSeries", "Tap", "Session"])
def test_types_keep_the_names_that_clients_know(name):
    """Whatever their classes are called."""
    assert f"\ntype {name} (\n" in describe(CONTROL)


def test_every_method_says_what_it_is_for():
    """In the line above."""
    text = describe(CONTROL)
    assert [] == [name for name in METHODS if not re.search(rf"^# .*\nmethod {name}\(", text, re.MULTILINE)]


@pytest.mark.parametrize("name", INTERFACES)
def test_a_description_uses_only_words_of_the_language(name):
    """Types, methods and errors begin with a capital; fields are lower case (varlink.org/Interface-Definition)."""
    text = re.sub(r"#.*", "", describe(name))
    assert re.match(rf"\s*interface {re.escape(name)}\n", text)
    known = {"bool", "int", "float", "string", "object", *re.findall(r"^type (\w+)", text, re.MULTILINE)}
    used = set(re.findall(r": (?:\?|\[\]|\[string\])*(\w+)", text))
    assert used <= known
    assert all(
        re.fullmatch(r"[A-Z][A-Za-z0-9]*", word)
        for word in re.findall(r"^(?:type|method|error) (\w+)", text, re.MULTILINE)
    )
