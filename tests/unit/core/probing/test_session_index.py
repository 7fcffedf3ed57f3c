"""Sessions are found by what their plans say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from meshwatchd.core.probing.session_index import SessionIndex
from meshwatchd.model.ids import FlowClass, Layer, NodeName, SessionId
from meshwatchd.model.outputs import SessionPlan
from tests.unit.core.probing.test_session_resources import PLAN

PLANS = [
    PLAN,
    msgspec.structs.replace(PLAN, session=SessionId(1), path=1),
    msgspec.structs.replace(PLAN, session=SessionId(2), layer=Layer.OVERLAY),
    msgspec.structs.replace(PLAN, session=SessionId(3), flow=FlowClass.PINNED),
    msgspec.structs.replace(PLAN, session=SessionId(4), layer=Layer.POD_NETWORK),
]
SESSIONS: Any = tuple(SimpleNamespace(plan=plan) for plan in PLANS)
INDEX = SessionIndex(SESSIONS)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, [0, 1, 2, 3]),
        ({"path": 0}, [0, 2, 3]),
        ({"path": 0, "layer": Layer.RELAY}, [0, 3]),
        ({"path": 0, "layer": Layer.RELAY, "flow": FlowClass.FRESH}, [0]),
        ({"layer": Layer.OVERLAY}, [2]),
        ({"flow": FlowClass.PINNED}, [3]),
        ({"is_advisory": True}, [4]),
        ({"path": 9}, []),
        ({"peer": "b3"}, [0, 1, 2, 3]),
        ({"peer": "b3", "path": 0, "flow": FlowClass.FRESH}, [0, 2]),
        ({"peer": "b3", "is_advisory": True}, [4]),
        ({"peer": "b9"}, []),
    ],
)
def test_all_that_is_asked_for_holds(wanted, found):
    """Advisory sessions are found only where they are asked for."""
    assert found == [session.plan.session for session in INDEX.select(wanted)]


class _Counted:
    """A plan that counts how often it is looked at."""

    reads = 0

    def __init__(self, plan: SessionPlan) -> None:
        self._plan = plan

    def __getattr__(self, name: str) -> object:
        type(self).reads += 1
        return getattr(self._plan, name)


@pytest.mark.parametrize(
    "wanted", [{"peer": "b7"}, {"peer": "b7", "flow": FlowClass.FRESH}, {"peer": "b7", "layer": Layer.RELAY}]
)
def test_the_sessions_of_one_node_are_found_among_those_of_thousands(wanted):
    """A relay gives notice to each of its neighbours while traffic waits: it looks at none of the others' sessions."""
    plans = [
        _Counted(msgspec.structs.replace(PLAN, session=SessionId(place), peer=NodeName(f"b{place // 4}")))
        for place in range(4_000)
    ]
    sessions: Any = tuple(SimpleNamespace(plan=plan) for plan in plans)
    index = SessionIndex(sessions)
    before = _Counted.reads
    found = index.select(wanted)

    assert [28, 29, 30, 31] == [session.plan.session for session in found]
    assert 4 * (len(wanted) + 2) >= _Counted.reads - before
