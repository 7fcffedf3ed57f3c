"""From evidence to a verdict: which layer is broken, at which node, in which flows.

The evidence is a consistent cut of everything this node knows about one pair of locations at one instant. The rules
are a table (`core.diagnosis.rules`), read from the top, first match wins; the last one always matches.

    member of the leader's location                    the leader of the other location
      b3 --underlay-- b1 --+                             a1 ==WireGuard== b1 --overlay-- b2, b3
      b3 --overlay--- b1   +== relay path == a*          a1 sees b1 itself and what is beyond it
"""

from __future__ import annotations

from functools import partial

from meshwatchd.core.diagnosis.evidence import Evidence, Leg
from meshwatchd.core.diagnosis.path_rules import is_alone
from meshwatchd.core.diagnosis.predicates import direction, own_overlay_lost
from meshwatchd.core.diagnosis.rule import Rule
from meshwatchd.core.diagnosis.rules import TABLE
from meshwatchd.core.diagnosis.service_canaries import EXPLAINABLE
from meshwatchd.core.pmtu.verdict import SIZE_FAULTS, to_verdict
from meshwatchd.model.faults import CATALOGUE, Direction, FaultCode, Severity, Verdict
from meshwatchd.model.service_faults import SERVICE_FAULTS

__all__ = ["Evidence", "Leg", "classify", "explains"]

MAX_CANARIES = 6
"""Named in one sentence."""

CANARY_FAULTS = (
    *(FaultCode.POD_UNREACHABLE, FaultCode.KUBELET_UNREACHABLE, FaultCode.APISERVER_UNREACHABLE),
    FaultCode.PROBES_ONLY,
    *(fault.code for fault in SERVICE_FAULTS),
)
"""What silent canaries prove by themselves, and so are no consequence of."""


def classify(evidence: Evidence) -> Verdict:
    """The verdict of the first rule that matches."""
    rule = next(rule for rule in TABLE if rule.matches(evidence))
    fault, because = rule.fault, rule.because(evidence)
    # Where nothing is found the answers that are missed on a standby in use are too young, or the primary path answers.
    is_broken = evidence.is_active_down and fault is not FaultCode.NONE
    if is_broken and not evidence.has_good_standby and not _is_about_itself(rule, evidence):
        because = (f"the path in use is broken ({fault}) and no standby is good", *because)
        fault = FaultCode.ALL_PATHS_DOWN
    if fault is not FaultCode.NONE and rule.fault not in CANARY_FAULTS:
        because = (*because, _consequence(rule, evidence))
    if evidence.sizes is not None and fault is evidence.sizes.fault:
        return to_verdict(evidence.sizes, evidence.pair, because)
    return Verdict(
        fault=fault,
        layer=evidence.silent_ip6[0][0] if fault is FaultCode.ADDRESS_FAMILY_BROKEN else CATALOGUE[fault].layer,
        severity=_severity(fault, rule, evidence),
        pair=evidence.pair,
        culprit=rule.culprit(evidence),
        direction=direction(evidence) if fault is not FaultCode.NONE else Direction.UNKNOWN,
        because=tuple(sentence for sentence in because if sentence),
        log_likelihood=evidence.log_likelihood,
    )


def _is_about_itself(rule: Rule, evidence: Evidence) -> bool:
    """Whether the verdict is about this node or its probes: then nothing is known of any path."""
    is_about_probes = rule.fault in (FaultCode.LOCAL, FaultCode.PROBE_PORT_BLOCKED)
    return is_about_probes or _is_cut_off(rule, evidence) or is_alone(evidence) or own_overlay_lost(evidence)


def _is_cut_off(rule: Rule, evidence: Evidence) -> bool:
    """Whether this node is the one that does not reach its leader."""
    return rule.fault is FaultCode.NODE_UNREACHABLE and rule.culprit(evidence) == evidence.self_name


def _severity(fault: FaultCode, rule: Rule, evidence: Evidence) -> Severity:
    """How bad it is: of what is named nothing loses packets here as long as the path in use answers.

    That one node is cut off is a warning to all others, and to that node it is an outage.
    """
    severity = Severity.CRITICAL if _is_cut_off(rule, evidence) else CATALOGUE[fault].severity
    is_harmless = severity is Severity.CRITICAL and not evidence.is_active_down
    return Severity.WARNING if is_harmless else severity


def explains(fault: FaultCode, culprit: str, node: str, *, here: str) -> bool:
    """Whether a fault is reason enough for a canary to be silent.

    Args:
        fault: what is named.
        culprit: where that is.
        node: the one that the canary stands for.
        here: this node: where that is cut off, every canary is.
    """
    if fault is FaultCode.NODE_UNREACHABLE and culprit == here:
        return True
    if fault in (FaultCode.NODE_UNREACHABLE, FaultCode.POD_NETWORK_BROKEN):
        return culprit == node
    harmless = FaultCode.NONE, FaultCode.STANDBY_DOWN, FaultCode.PROBE_PORT_BLOCKED, FaultCode.OFFLOAD_FAULT
    return fault not in (*harmless, *CANARY_FAULTS, *SIZE_FAULTS)


def _consequence(rule: Rule, evidence: Evidence) -> str:
    """The canaries that are silent because of it, in one sentence: there may be several on each node."""
    is_explained = partial(explains, rule.fault, rule.culprit(evidence), here=evidence.self_name)
    silent = [
        f"{name} on {node}"
        for name, node in (*evidence.silent_canaries, *((each.name, each.node) for each in evidence.silent_services))
        if is_explained(node)
    ]
    silent += [
        f"{each.canary} on {each.node}"
        for each in evidence.services
        if each.fault in EXPLAINABLE and is_explained(each.node)
    ]
    if not silent:
        return ""
    rest = f" and {len(silent) - MAX_CANARIES} more" if len(silent) > MAX_CANARIES else ""
    kind = "canary" if len(silent) == 1 else "canaries"
    return f"silent in consequence: {kind} {', '.join(silent[:MAX_CANARIES])}{rest}"
