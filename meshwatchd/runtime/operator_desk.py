"""Carries operators' requests from the control socket to the engine, and its answers back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import msgspec

from meshwatchd.model.events import OperatorRequested
from meshwatchd.model.outputs import ReplyOperator

ANSWER_TIMEOUT_S = 5.0
"""The engine answers within a millisecond; one that has not by then is wedged or gone."""


class OperatorDesk:
    """Numbers requests, and finds the request an answer is for."""

    def __init__(self, send: Callable[[OperatorRequested], None]) -> None:
        self._send = send
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[ReplyOperator]] = {}

    async def ask(self, request: OperatorRequested) -> ReplyOperator:
        """Put a request to the engine, under a number of its own, and wait for its answer.

        Raises:
            TimeoutError: no answer within ANSWER_TIMEOUT_S; nothing is known of the outcome.
        """
        number = next(self._numbers)
        answer: asyncio.Future[ReplyOperator] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            self._send(msgspec.structs.replace(request, request=number))
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT_S)
        finally:
            del self._waiting[number]

    def answer(self, reply: ReplyOperator) -> None:
        """Deliver the engine's answer; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(reply.request)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)
