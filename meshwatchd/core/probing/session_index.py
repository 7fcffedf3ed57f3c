"""Sessions by what their plans say."""

from __future__ import annotations

from collections.abc import Iterable

from meshwatchd.core.session.session import Session


class SessionIndex:
    """Finds sessions by attributes of their plans; by peer, path and layer without looking at all of them."""

    def __init__(self, sessions: tuple[Session, ...] = ()) -> None:
        self._all = sessions
        self._judging = tuple(session for session in sessions if not session.plan.is_advisory)
        # The most telling attribute first: a node is asked over few paths, and each path leads to many nodes.
        self._of: dict[str, dict[object, list[Session]]] = {"peer": {}, "path": {}, "layer": {}}
        for session in sessions:
            self._of["peer"].setdefault(session.plan.peer, []).append(session)
            self._of["path"].setdefault(session.plan.path, []).append(session)
            self._of["layer"].setdefault(session.plan.layer, []).append(session)

    def select(self, wanted: dict[str, object]) -> tuple[Session, ...]:
        """The sessions whose plans have all the given attribute values; advisory ones only when asked for."""
        if not wanted:
            return self._judging
        wanted.setdefault("is_advisory", False)
        # A pair of locations asks some twenty times for its own paths, and there may be fifty pairs; each message and
        # each notice asks for one peer.
        found: Iterable[Session] = self._all
        for name, sessions in self._of.items():
            if name in wanted:
                found = sessions.get(wanted[name], ())
                break
        return tuple(s for s in found if all(getattr(s.plan, name) == value for name, value in wanted.items()))
