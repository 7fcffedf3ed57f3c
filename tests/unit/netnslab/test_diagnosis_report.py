"""The confusion matrix: right is the fault's own code and nothing beside it."""

from typing import Any

from netnslab.diagnosis_report import SILENCE, Told, judge, matrix, render, summarise


def said(*codes, culprit="c1"):
    """What stands at the end: one code a daemon."""
    return [
        Told(node=node, fault=code, culprit=culprit, source="verdict")
        for node, code in zip("abcd", codes, strict=False)
    ]


def cell(standing, *, history=(), expected="fdb-entry-missing", topology="flannel-wg", calm_ms=1.0):
    """One cell, injected at 1 s."""
    return judge(
        topology=topology,
        expected=expected,
        node="c1",
        culprit="c1",
        injected_ns=1_000_000_000,
        history=history,
        standing=standing,
        calm_ms=calm_ms,
    )


def test_the_expected_code_alone_is_right():
    """However many daemons say it; the time counts from the injection to the first of them."""
    history = [
        Told(node="a", fault="undetermined", culprit="", source="verdict", at_ns=1_200_000_000),
        Told(node="a", fault="fdb-entry-missing", culprit="c1", source="finding", at_ns=1_900_000_000),
        Told(node="b", fault="fdb-entry-missing", culprit="c1", source="finding", at_ns=1_700_000_000),
    ]
    judged = cell(said("fdb-entry-missing", "fdb-entry-missing"), history=history)

    assert judged.is_right
    assert judged.is_place_right
    assert "fdb-entry-missing" == judged.given
    assert 700.0 == judged.verdict_ms


def test_another_code_beside_it_is_not_right():
    """It is named, but something else is blamed as well; the one most daemons say stands in the matrix."""
    judged = cell(said("fdb-entry-missing", "undetermined", "undetermined", "leader-dead"))

    assert judged.is_named
    assert not judged.is_right
    assert {"undetermined": 2, "leader-dead": 1} == judged.others
    assert "undetermined" == judged.given


def test_what_the_other_side_must_say_is_no_other_blame():
    """The dead leader says that it hears nobody; the same word from somebody else is blame."""
    standing = [
        Told(node="a", fault="leader-dead", culprit="c1", source="verdict"),
        Told(node="c1", fault="local-fault", culprit="c1", source="verdict"),
    ]
    common: dict[str, Any] = {
        "topology": "t",
        "expected": "leader-dead",
        "node": "c1",
        "culprit": "c1",
        "injected_ns": 0,
        "calm_ms": 1.0,
    }

    for companions, is_right in (
        ((("c1", "local-fault", "c1"),), True),
        ((("a", "local-fault", "c1"),), False),
        ((), False),
    ):
        judged = judge(**common, history=(), standing=standing, companions=companions)
        assert is_right == judged.is_right

    elsewhere = [Told(node="c1", fault="local-fault", culprit="d1", source="verdict"), *standing[:1]]
    judged = judge(**common, history=(), standing=elsewhere, companions=(("c1", "local-fault", "c1"),))
    assert not judged.is_right


def test_silence_is_a_diagnosis_too():
    """Nobody said anything, so nothing can be right."""
    judged = cell(())

    assert SILENCE == judged.given
    assert not judged.is_right
    assert judged.verdict_ms is None


def test_the_right_name_at_the_wrong_node_is_wrong():
    """Whom it blames counts as much as what it says: it stands in the matrix with the node."""
    judged = cell(said("fdb-entry-missing", culprit="d1"))

    assert judged.is_named
    assert not judged.is_place_right
    assert not judged.is_right
    assert {"fdb-entry-missing": {"fdb-entry-missing@d1": 1}} == matrix([judged])
    assert "fdb-entry-missing@d1" in render([judged])


def test_a_second_culprit_is_blame_although_the_first_is_right():
    """One daemon names the node that has it, another one somebody else."""
    standing = [
        Told(node="a", fault="fdb-entry-missing", culprit="c1", source="finding"),
        Told(node="b", fault="fdb-entry-missing", culprit="d1", source="verdict"),
    ]
    judged = cell(standing)

    assert judged.is_place_right
    assert not judged.is_right
    assert {"fdb-entry-missing@d1": 1} == judged.others


def test_of_what_is_between_two_nodes_each_names_the_other():
    """And a third one that speaks of it names nobody rightly."""

    def is_right(*told):
        standing = [Told(node=node, fault="one-way-break", culprit=culprit, source="verdict") for node, culprit in told]
        judged = judge(
            topology="t",
            expected="one-way-break",
            node="c1",
            culprit="c1",
            injected_ns=0,
            history=(),
            standing=standing,
            calm_ms=1.0,
            places={("c1", "d1"), ("d1", "c1")},
        )
        return judged.is_right

    assert is_right(("c1", "d1"))
    assert is_right(("c1", "d1"), ("d1", "c1"))
    assert not is_right(("c1", "c1"))
    assert not is_right(("c1", "d1"), ("c2", "d1"))


def test_matrix_and_summary_count_cells():
    """Rows are what was injected, columns what was said."""
    right, silent = cell(said("fdb-entry-missing")), cell((), topology="kilo-flannel", calm_ms=None)
    wrong = cell(said("leader-dead"), expected="one-way-break")

    assert {"fdb-entry-missing": {"fdb-entry-missing": 1, SILENCE: 1}, "one-way-break": {"leader-dead": 1}} == matrix(
        [right, silent, wrong]
    )
    total = summarise([right, silent, wrong])
    assert (3, 1, 0.3333, 1, 1) == (
        total["cells"],
        total["diagonal"],
        total["diagonal_share"],
        total["named"],
        total["not_calm_afterwards"],
    )


def test_table_has_a_row_for_each_fault_and_a_column_for_each_topology():
    """A cell that was not tried is a dash."""
    table = render([cell(said("fdb-entry-missing")), cell((), expected="leader-dead", topology="kilo-flannel")])
    lines = table.splitlines()

    assert "flannel-wg" in lines[0]
    assert "kilo-flannel" in lines[0]
    assert lines[1].startswith("fdb-entry-missing  right")
    assert lines[1].endswith("-")
    assert SILENCE in lines[2]
    assert lines[-1].startswith("diagonal 1 of 2 ")
    assert lines[-1].endswith("named 1, culprit named 1")
