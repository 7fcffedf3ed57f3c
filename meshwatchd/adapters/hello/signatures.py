"""How many signatures of hellos are verified, in all and for each address they come from.

Verifying one costs 0.2 to 0.4 ms, some fifty times what the mesh's tag costs. A node that holds the mesh key and sends
new hellos as fast as it can would keep the agents of all others busy. What is not verified is not believed, and honest
nodes say everything again.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Final

from meshwatchd.adapters.identity import is_signed_by
from meshwatchd.adapters.packet.peers import TokenBucket
from meshwatchd.wire.hello import IsSigned

ALL_PER_S: Final = 500
ALL_AT_ONCE: Final = 2_000
"""A fifth of a core at most, for whoever invents addresses. 1 000 nodes send 33 hellos a second, and all of them two at
once where everything changes."""

SOURCE_PER_S: Final = 50
SOURCE_AT_ONCE: Final = 200
"""A location of a hundred nodes may come from one address, by NAT."""

MAX_SOURCES: Final = 4096


class Signatures:
    """Verifies within limits.

    Args:
        counters: "hello-unverified".
    """

    def __init__(self, counters: Counter[str], clock: Callable[[], int]) -> None:
        self._counters, self._clock = counters, clock
        self._all = TokenBucket(ALL_PER_S, burst=ALL_AT_ONCE)
        self._sources: dict[str, TokenBucket] = {}

    def of(self, source: str) -> IsSigned:
        """What verifies a hello that came from this address; False as well where the limit is reached."""
        return functools.partial(self._verify, source)

    def _verify(self, source: str, key: bytes, signature: bytes, text: bytes) -> bool:
        now_ns = self._clock()
        bucket = self._sources.get(source)
        if bucket is None:
            if len(self._sources) >= MAX_SOURCES:
                # The oldest one: a new bucket is full, which whoever invents addresses gains nothing by.
                del self._sources[next(iter(self._sources))]
            bucket = self._sources[source] = TokenBucket(SOURCE_PER_S, burst=SOURCE_AT_ONCE)
        if bucket.take(now_ns) and self._all.take(now_ns):
            return is_signed_by(key, signature, text)
        self._counters["hello-unverified"] += 1
        return False
