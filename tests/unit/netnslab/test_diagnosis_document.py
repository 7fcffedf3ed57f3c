"""One document from several runs: what was measured on one commit is joined, and nothing else."""

import json

import pytest

from netnslab.bench_diagnosis import main
from netnslab.diagnosis_cells import TOPOLOGIES
from netnslab.diagnosis_document import joined, read, write
from netnslab.diagnosis_report import Told, judge


def cell(expected, *, topology="flannel-wg", says="", culprit="c1"):
    """One cell, judged by what one daemon says."""
    standing = [Told(node="c1", fault=says or expected, culprit=culprit, source="finding")]
    return judge(
        topology=topology,
        expected=expected,
        node="c1",
        culprit="c1",
        injected_ns=0,
        history=standing,
        standing=standing,
        calm_ms=12.5,
    )


def written(path, *cells, commit="abc"):
    """A document of these cells."""
    write(cells, path, method="m", commit=commit)
    return path


def test_what_was_written_is_read_again(tmp_path):
    """With all that was told, so that a joined document proves as much as its parts."""
    cells = cell("forwarding-off"), cell("conntrack-full", says="local-fault")

    document = read(written(tmp_path / "one.json", *cells))
    assert "abc" == document.commit
    assert [(each.expected, each.is_right) for each in cells] == [(e.expected, e.is_right) for e in document.cells]
    assert cells[0].standing[0] == document.cells[0].standing[0]


def test_runs_of_one_commit_make_one_matrix(tmp_path, capsys):
    """By topology; a cell that was tried twice counts twice, the wrong trial too."""
    first = written(tmp_path / "one.json", cell("forwarding-off"), cell("leader-dead", topology="kilo-flannel"))
    second = written(tmp_path / "two.json", cell("forwarding-off", culprit="d1"))
    output = tmp_path / "all.json"

    assert 1 == main(["--merge", str(first), str(second), "--output", str(output)])
    document = json.loads(output.read_text())
    assert ["flannel-wg", "flannel-wg", "kilo-flannel"] == [each["topology"] for each in document["cells"]]
    assert {"forwarding-off": 1, "forwarding-off@d1": 1} == document["matrix"]["forwarding-off"]
    assert (3, 2) == (document["summary"]["cells"], document["summary"]["diagonal"])
    assert ["one.json", "two.json"] == [each["file"] for each in document["merged"]]
    assert "diagonal 2 of 3" in capsys.readouterr().out
    assert 0 == main(["--merge", str(first), "--output", str(output)])


def test_runs_of_different_commits_are_not_joined(tmp_path, capsys):
    """What two programs say is no matrix of either; and what is no document is not read."""
    paths = [written(tmp_path / f"{commit}.json", cell("forwarding-off"), commit=commit) for commit in ("a", "b")]

    with pytest.raises(ValueError, match="different commits: a, b"):
        joined([read(path) for path in paths])
    assert 2 == main(["--merge", *map(str, paths), "--output", str(tmp_path / "all.json")])
    (tmp_path / "other.json").write_text("{}")
    assert 2 == main(["--merge", str(tmp_path / "other.json"), "--output", str(tmp_path / "all.json")])
    assert "no document" in capsys.readouterr().err


def test_slices_are_all_cells_and_each_once(capsys):
    """Each part has some of each topology."""
    main(["--list"])
    every = capsys.readouterr().out.splitlines()
    parts = []
    for number in (1, 2, 3):
        main(["--list", "--slice", f"{number}/3"])
        parts.append(capsys.readouterr().out.splitlines())

    assert sorted(every) == sorted(line for part in parts for line in part)
    assert all(set(TOPOLOGIES) == {line.split()[0] for line in part} for part in parts)
    with pytest.raises(SystemExit):
        main(["--list", "--slice", "4/3"])
