"""The converter's complaints, told in the operator's words."""

from __future__ import annotations

import pytest

from meshwatchd.config.shape import ShapeError, element_key, shape
from meshwatchd.model.settings import Settings


def test_an_empty_document_is_all_defaults():
    """Nothing has to be written."""
    assert Settings() == shape({})


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
        shape(document)
    finding = caught.value.finding
    assert (key, problem, remedy) == (finding.key, finding.problem, finding.remedy)


def test_an_element_is_called_by_index_and_name():
    """Counting to the seventh node is nobody's pleasure."""
    assert "mesh.node[3] (b2)" == element_key("mesh.node", 3, "b2")
    assert "mesh.node[3]" == element_key("mesh.node", 3, None)
