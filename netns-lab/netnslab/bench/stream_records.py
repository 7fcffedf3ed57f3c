"""What the stream saw of one fault. Pure, but for reading the two files."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path

from netnslab.bench.stream import ARRIVED, SENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One packet at its destination."""

    at_ns: int
    interface: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOutage:
    """One gap of the stream.

    Attributes:
        began_ns: when the first lost packet was sent.
        first_ns: when the first packet after it arrived; None when none did.
        interface: the device it came by.
        lost: packets between.
    """

    began_ns: int
    first_ns: int | None
    interface: int
    lost: int

    @property
    def duration_ns(self) -> int | None:
        """From the first lost packet's sending to the next arrival; None when there was none."""
        return None if self.first_ns is None else self.first_ns - self.began_ns


class StreamRecords:
    """Both ends' records of one stream.

    Args:
        sent_ns: when each packet was sent, by its number.
        arrived: what came of it, by its number.
    """

    def __init__(self, sent_ns: list[int], arrived: dict[int, Arrival]) -> None:
        self._sent_ns = sent_ns
        self._arrived = arrived

    @classmethod
    def read(cls, sent: Path, arrived: Path) -> StreamRecords:
        """From the files of sender and receiver; what is incomplete at their ends is left out."""
        return cls(
            [at_ns for _number, at_ns in SENT.iter_unpack(_whole(sent, SENT.size))],
            {
                number: Arrival(at_ns=at_ns, interface=interface)
                for number, at_ns, interface in ARRIVED.iter_unpack(_whole(arrived, ARRIVED.size))
            },
        )

    def outage(self, since_ns: int, until_ns: int) -> StreamOutage | None:
        """The first gap among the packets sent in a period; None when all arrived.

        A gap ends with the first later packet that arrives, even if that is after the period.
        """
        first = bisect_left(self._sent_ns, since_ns)
        last = bisect_left(self._sent_ns, until_ns)
        lost = next((number for number in range(first, last) if number not in self._arrived), None)
        if lost is None:
            return None
        after = next((number for number in range(lost, len(self._sent_ns)) if number in self._arrived), None)
        return StreamOutage(
            began_ns=self._sent_ns[lost],
            first_ns=None if after is None else self._arrived[after].at_ns,
            interface=0 if after is None else self._arrived[after].interface,
            lost=(len(self._sent_ns) if after is None else after) - lost,
        )


def _whole(path: Path, size: int) -> bytes:
    data = path.read_bytes()
    return data[: len(data) // size * size]
