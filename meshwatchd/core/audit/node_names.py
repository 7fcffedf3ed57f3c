"""Two nodes of one name: cloned machines, an image with a host name in it, a node back beside its successor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from meshwatchd.core.membership.replay_protection import Rival
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.fault_codes import FaultCode


def audit_names(rivals: Iterable[Rival]) -> Iterator[AuditFinding]:
    """One finding for each name; the mesh goes on with the node that had it first."""
    for rival in rivals:
        first = f"the one at {rival.first}" if rival.first else "this node"
        yield AuditFinding(
            code=FaultCode.DUPLICATE_NODE_NAME,
            device="",
            subject=rival.name,
            peer=rival.name,
            culprit=rival.name,
            because=(
                f"two nodes with the mesh key call themselves {rival.name}: {first}, and another one at {rival.second}",
                f"the mesh goes on with {first}; what the other one says is refused",
            ),
        )
