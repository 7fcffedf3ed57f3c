import json

from netnslab.bench.report import cell, document, write


def test_a_cell_shows_nested_figures_and_the_lack_of_them():
    """FRR has no outage, since it reroutes nothing."""
    row = {"tool": "frr", "detect_ms": {"p50": 131.0}, "outage_ms": {"p50": None}}

    assert ("frr", "131.0", "-", "-") == tuple(
        cell(row, column) for column in ("tool", "detect_ms.p50", "outage_ms.p50", "to_standby_ms.p50")
    )


def test_a_document_says_where_and_how_it_was_measured(tmp_path):
    """Without the machine, its load and the method a figure means nothing."""
    path = write(document("cpu", "from /proc", [{"tool": "bird"}], rounds=5), tmp_path)
    found = json.loads(path.read_text())

    assert "cpu.json" == path.name
    assert {"benchmark", "date", "machine", "versions", "method", "rounds", "rows"} == set(found)
    assert "load_average" in found["machine"]
