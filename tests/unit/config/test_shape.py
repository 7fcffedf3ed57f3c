"""The converter's complaints, told in the operator's words."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from meshwatchd.config.shape import ShapeError, element_key, shape, unshape
from meshwatchd.model.settings import Settings
from meshwatchd.model.units import format_duration

UNIT = "write a number and a unit (us, ms, s, min, h), as in 50ms"


def test_an_empty_document_is_all_defaults():
    """Nothing has to be written."""
    assert Settings() == shape({}, Settings)


@pytest.mark.parametrize(
    ("document", "key", "problem", "remedy"),
    [
        ({"probes": {}}, "probes", "unknown key", "did you mean probe?"),
        (
            {"xyzzy": 1},
            "xyzzy",
            "unknown key",
            f"remove it; known here: {', '.join(Settings.__struct_fields__)}",
        ),
        ({"daemon": {"mtu": 1}}, "daemon.mtu", "unknown key", "mtu belongs in [standby]"),
        (
            {"daemon": {"mode": "x"}},
            "daemon.mode",
            "'x' is none of the choices",
            "write one of observe, advise, enforce",
        ),
        (
            {"probe": {"port": True}},
            "probe.port",
            "must be a whole number, not True",
            "write it without quotes or decimal point",
        ),
        ({"probe": 3}, "probe", "must be a table, not 3", "write it as a section in brackets"),
        ({"mesh": {"node": [{"name": "b2"}]}}, "mesh.node[0] (b2)", "location is missing", "add location = ..."),
        ({"mesh": {"node": [{"location": "x"}]}}, "mesh.node[0]", "name is missing", "add name = ..."),
        ({"policy": {"hold_down": 30}}, "policy.hold_down", "must be a duration, not 30", UNIT),
        ({"policy": {"hold_down": "30"}}, "policy.hold_down", "'30' is no duration", UNIT),
        ({"policy": {"half_life": "1ms"}}, "policy.half_life", "'1ms' is out of range", "write 100 ms to 1 h"),
        ({"policy": {"reuse": 0}}, "policy.reuse", "0 is out of range", "write 1 or more"),
        (
            {"discovery": {"source_uids": [0, -1]}},
            "discovery.source_uids[1]",
            "-1 is out of range",
            "write 0 to 4294967294 (the highest user number)",
        ),
        ({"auth": {"key_file": "/a\0"}}, "auth.key_file", "'/a\\x00' contains a NUL byte", "write it without"),
        (
            {"mesh": {"node": {}}},
            "mesh.node",
            "must be a list, not a table",
            "write [[mesh.node]] with two brackets: there may be several",
        ),
    ],
)
def test_a_complaint_names_key_and_remedy(document, key, problem, remedy):
    """Every kind of complaint the converter has."""
    with pytest.raises(ShapeError) as caught:
        shape(document, Settings)
    finding = caught.value.finding
    assert (key, problem, remedy) == (finding.key, finding.problem, finding.remedy)


def test_an_element_is_called_by_index_and_name():
    """Counting to the seventh node is nobody's pleasure."""
    assert "mesh.node[3] (b2)" == element_key("mesh.node", 3, "b2")
    assert "mesh.node[3]" == element_key("mesh.node", 3, None)


def test_durations_are_nanoseconds_inside_and_words_outside():
    """Of every section, and of canaries, which are a list."""
    canary = {"name": "web", "address": "10.0.0.1", "port": 80, "node": "b3", "interval": "1500ms"}
    settings = shape({"policy": {"hold_down": "1.5min"}, "probe": {"canary": [canary]}}, Settings)
    assert (90_000_000_000, 1_500_000_000) == (settings.policy.hold_down, settings.probe.canary[0].interval)
    document: Any = unshape(settings)
    assert ("90s", "1500ms") == (document["policy"]["hold_down"], document["probe"]["canary"][0]["interval"])


def _bounded(kind, path=""):
    """Every setting with bounds of its own, and those bounds."""
    for field in msgspec.structs.fields(kind):
        metas = [each for each in get_args(field.type)[1:] if isinstance(each, msgspec.Meta)]
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from _bounded(field.type, f"{field.name}.")
        elif metas and metas[-1].ge is not None:
            is_duration = any(each.title == "duration" for each in metas)
            bounds: Any = metas[-1]
            yield f"{path}{field.name}", bounds, field.default, is_duration


@pytest.mark.parametrize(("key", "meta", "default", "is_duration"), list(_bounded(Settings)))
def test_every_bound_holds_and_lets_the_default_pass(key, meta, default, is_duration):
    """The bound itself is the last that is taken."""
    assert meta.ge <= default
    section, name = key.split(".")
    write, step = (format_duration, 1_000) if is_duration else (int, 1)
    for good, bad in ((meta.ge, meta.ge - step), (meta.le, meta.le and meta.le + step)):
        if good is None:
            continue
        assert good == getattr(getattr(shape({section: {name: write(good)}}, Settings), section), name)
        if is_duration and bad < 0:
            continue
        with pytest.raises(ShapeError, match="out of range"):
            shape({section: {name: write(bad)}}, Settings)
