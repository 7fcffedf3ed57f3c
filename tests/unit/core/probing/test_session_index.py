"""Sessions are found by what their plans say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from meshwatchd.core.probing.session_index import SessionIndex
from meshwatchd.model.ids import FlowClass, Layer, SessionId
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
    ],
)
def test_all_that_is_asked_for_holds(wanted, found):
    """Advisory sessions are found only where they are asked for."""
    assert found == [session.plan.session for session in INDEX.select(wanted)]
