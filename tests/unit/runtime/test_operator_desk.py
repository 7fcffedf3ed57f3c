import asyncio

import pytest

from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.outputs import ReplyOperator
from meshwatchd.runtime import operator_desk
from meshwatchd.runtime.operator_desk import OperatorDesk


def reply(number, text="done"):
    """An engine's answer."""
    return ReplyOperator(request=number, is_accepted=True, text=text)


def test_answers_find_their_requests_in_any_order():
    """Two operators at once."""

    async def scenario():
        requests: list[OperatorRequested] = []
        desk = OperatorDesk(requests.append)
        first = asyncio.get_running_loop().create_task(
            desk.ask(
                OperatorRequested(request=0, verb=OperatorVerb.FAILOVER, location="cloud", to_rank=1, is_dry_run=False)
            )
        )
        second = asyncio.get_running_loop().create_task(
            desk.ask(
                OperatorRequested(
                    request=0, verb=OperatorVerb.FAILBACK, location="cloud", to_rank=None, is_dry_run=True
                )
            )
        )
        await asyncio.sleep(0)
        for request in reversed(requests):
            desk.answer(reply(request.request, request.verb))
        return requests, await first, await second

    requests, first, second = asyncio.run(scenario())

    assert [(OperatorVerb.FAILOVER, 1, False), (OperatorVerb.FAILBACK, None, True)] == [
        (request.verb, request.to_rank, request.is_dry_run) for request in requests
    ]
    assert ("failover", "failback") == (first.text, second.text)


def test_a_silent_engine_is_not_waited_for_for_ever(monkeypatch):
    """And its late answer harms nobody."""
    monkeypatch.setattr(operator_desk, "ANSWER_TIMEOUT_S", 0.01)

    async def scenario():
        desk = OperatorDesk(lambda request: None)
        with pytest.raises(TimeoutError):
            await desk.ask(
                OperatorRequested(request=0, verb=OperatorVerb.FAILOVER, location="", to_rank=None, is_dry_run=False)
            )
        desk.answer(reply(1))

    asyncio.run(scenario())
