"""What discovery says to the operator, and how often."""

from __future__ import annotations

from typing import Any

from meshwatchd.runtime.rate_limited_log import COMPLAINT_GAP_NS, MAX_REMEMBERED, SHOWN, Remarks


class Log:
    """Keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        """Not of interest here."""

    def warning(self, event: str, **fields: Any) -> None:
        """As of structlog."""
        self.lines.append((event, fields))

    error = debug = warning


def test_the_same_complaint_is_made_again_after_ten_minutes():
    """A peer that is broken for a day must not fill the log, nor be forgotten."""
    log, now = Log(), [0]
    remarks = Remarks(log, lambda: now[0])
    for instant in (0, 1, COMPLAINT_GAP_NS - 1, COMPLAINT_GAP_NS):
        now[0] = instant
        remarks.complain("b2", "pod_cidr 'x' is no IPv4 prefix")
    remarks.complain("b3", "pod_cidr 'x' is no IPv4 prefix")

    assert ["b2", "b2", "b3"] == [fields["source"] for _, fields in log.lines]
    assert {"hello.rejected"} == {event for event, _ in log.lines}


def test_names_without_end_fill_no_log():
    """Whoever has the mesh key makes them up; ten minutes later there is room again."""
    log, now = Log(), [0]
    remarks = Remarks(log, lambda: now[0])
    for number in range(MAX_REMEMBERED + 100):
        remarks.complain(f"x{number}", "it is none of the mesh")
    assert MAX_REMEMBERED == len(log.lines)

    now[0] = COMPLAINT_GAP_NS
    remarks.complain("b2", "pod_cidr 'x' is no IPv4 prefix")
    assert "b2" == log.lines[-1][1]["source"]


def test_a_name_that_is_none_for_people_is_quoted():
    """The sender of what is refused has chosen it, and it ends on terminals."""
    log = Log()
    remarks = Remarks(log, lambda: 0)
    remarks.complain("b2\x1b[2J", "it is none of the mesh")
    remarks.complain("b" * 300, "it is none of the mesh")

    assert ["'b2\\x1b[2J'", repr("b" * 64)] == [fields["source"] for _, fields in log.lines]


def test_what_was_refused_lately_is_shown():
    """An operator who asks why sees the source and the reason; what is long past is in the log only."""
    now = [0]
    remarks = Remarks(Log(), lambda: now[0])
    remarks.complain("b1", "old")
    now[0] = COMPLAINT_GAP_NS - 1
    for number in range(2 * SHOWN):
        remarks.complain("b2", f"reason {number}")
    assert SHOWN == len(remarks.refused())
    now[0] += 1

    assert {"hello of b2"} == {finding.source for finding in remarks.refused()}
    assert "rejected: reason 31; its last good word is kept" == remarks.refused()[-1].text
    now[0] += COMPLAINT_GAP_NS
    assert () == remarks.refused()


def test_problems_are_told_once_and_only_when_a_mesh_is_in_force():
    """While the first mesh is put together everything is missing, and nothing is wrong."""
    log = Log()
    remarks = Remarks(log, lambda: 0)
    remarks.problems(("nobody leads site-a1",), is_found=False)
    assert [] == log.lines
    for problems in (("x",), ("x", "y"), ("y",), ("x", "y")):
        remarks.problems(problems, is_found=True)

    assert ["x", "y", "x"] == [fields["reason"] for _, fields in log.lines]
