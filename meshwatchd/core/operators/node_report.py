"""A node's status in the few words that fit into a hello."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.core.probing.session_plan import NO_PATH
from meshwatchd.model.faults import Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.node_report import AdvertisedSilence, AdvertisedVerdict, NodeReport
from meshwatchd.model.status import Status

MAX_VERDICTS, MAX_SILENCES, MAX_BYTES = 4, 8, 240
"""In one report; a hello of 1 200 bytes has room for the letters of that beside everything else."""


def make_report(status: Status) -> NodeReport:
    """The report, the lowest layers first where not all silent peers have room.

    A verdict that rests on another node's word is that node's to advertise.
    """
    verdicts = tuple(dict.fromkeys(_verdicts(status)))
    silences = tuple(sorted(_silences(status), key=lambda each: (each.layer, each.peer)))
    told: list[AdvertisedVerdict] = []
    silent: list[AdvertisedSilence] = []
    letters = 0
    for verdict in verdicts[:MAX_VERDICTS]:
        letters += len(verdict.towards) + len(verdict.fault) + len(verdict.culprit) + len(verdict.peer)
        if letters <= MAX_BYTES:
            told.append(verdict)
    for silence in silences[:MAX_SILENCES]:
        letters += len(silence.peer)
        if letters <= MAX_BYTES:
            silent.append(silence)
    return NodeReport(
        severity=status.severity.value if status.is_watching else "",
        verdicts=tuple(told),
        silences=tuple(silent),
        is_cut=len(told) < len(verdicts) or len(silent) < len(silences),
    )


def _verdicts(status: Status) -> Iterator[AdvertisedVerdict]:
    for finding in status.findings:
        if finding.severity is not Severity.OK and not finding.is_of_few:
            yield AdvertisedVerdict("", finding.fault.value, finding.culprit or status.node, finding.peer)
    for pair in status.pairs:
        verdict = pair.verdict
        if verdict.severity is not Severity.OK and not verdict.told_by:
            yield AdvertisedVerdict(pair.remote_location, verdict.fault.value, verdict.culprit)


def _silences(status: Status) -> Iterator[AdvertisedSilence]:
    """Peers that do not answer on a layer of no path, or over the path in use; standby paths are spare."""
    used = {path.number for pair in status.pairs for path in pair.paths if path.is_active} | {NO_PATH}
    lowest: dict[str, Layer] = {}
    for session in status.sessions:
        if session.state == "down" and session.path in used and session.peer != status.node:
            lowest[session.peer] = min(session.layer, lowest.get(session.peer, session.layer))
    yield from (AdvertisedSilence(peer, int(layer)) for peer, layer in lowest.items())
