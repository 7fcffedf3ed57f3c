"""Whether traffic is lost on a standby in use while the primary path works.

The rules about a broken path ask for the primary path. A standby that carries traffic can break as well, and where
people have paused or pinned the pair nobody leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.session.session import Session
from meshwatchd.core.session.shared_risk_group import UNHEARD, Group


def loses_what_passes(in_use: Group, primary: Iterable[Session]) -> bool:
    """Whether a condemned path loses probes to a node that answers over the primary path meanwhile.

    A dead node condemns a standby behind which it is alone, and answers over no path. When it is back it answers over
    both, and the standby stays condemned for some answers more: only what was lost after the first answer counts.
    """
    since = in_use.suspect_since or in_use.down_since
    peers = {session.plan.peer for session in in_use.sessions}
    answered: dict[str, int] = {}
    for session in primary:
        first = next((sent_at for sent_at in session.history if sent_at >= since), None)
        if first is not None and session.plan.peer in peers:
            answered[session.plan.peer] = min(first, answered.get(session.plan.peer, first))
    asked = ((session, answered.get(session.plan.peer)) for session in in_use.sessions)
    lost = sum(session.since(at)[1] for session, at in asked if at is not None)
    return in_use.is_down and lost >= UNHEARD
