"""Carries operators' requests from the control socket to the engine, and its answers back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.outputs import ReplyOperator

ANSWER_TIMEOUT_S = 5.0
"""The engine answers within a millisecond; one that has not by then is wedged or gone."""


class OperatorDesk:
    """Numbers requests, and finds the request an answer is for.

    Args:
        send: hands a request to the engine.
    """

    def __init__(self, send: Callable[[OperatorRequested], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[ReplyOperator]] = {}

    async def ask(self, verb: OperatorVerb, location: str, *, to_rank: int | None, is_dry_run: bool) -> ReplyOperator:
        """Put a request to the engine and wait for its answer.

        Raises:
            TimeoutError: no answer within ANSWER_TIMEOUT_S; nothing is known of the outcome.
        """
        number = next(self._numbers)
        answer: asyncio.Future[ReplyOperator] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send(
                OperatorRequested(request=number, verb=verb, location=location, to_rank=to_rank, is_dry_run=is_dry_run)
            )
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
        finally:
            del self._waiting[number]

    def answer(self, reply: ReplyOperator) -> None:
        """Deliver the engine's answer; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(reply.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)
