"""The rules of the kernel: few, and read anew as a whole whenever one comes or goes."""

from __future__ import annotations

from collections.abc import Callable

from meshwatchd.adapters.netlink import message
from meshwatchd.adapters.netlink.compact import Packed
from meshwatchd.adapters.netlink.decode import RuleRecord
from meshwatchd.adapters.netlink.kinds import RULES_V4, RULES_V6
from meshwatchd.adapters.netlink.ports import DumpSource
from meshwatchd.model.errors import MeshwatchError


class RuleTable:
    """All rules, and what is known of those of IPv4.

    Args:
        source: of dumps.
        describe: a rule by its message body (struct fib_rule_hdr and attributes, host byte order); None for one that
            is nobody's business here.

    Attributes:
        is_stale: a rule has come or gone since they were read.
        bodies: message bodies in the order of the dump, IPv4 first.
    """

    def __init__(self, source: DumpSource, describe: Callable[[bytes], RuleRecord | None]) -> None:
        self._source, self._describe = source, describe
        self._known: dict[bytes, RuleRecord] = {}
        self.bodies: tuple[bytes, ...] = ()
        self.is_stale = True

    def records(self) -> list[RuleRecord]:
        """Those of IPv4 that were described."""
        return list(self._known.values())

    async def read(self) -> None:
        """Read all of them.

        Raises:
            KernelError: a dump was refused; they are stale.
            DecodeError: a dump is malformed; they are stale.
        """
        self.is_stale = False

        def body(data: bytes) -> Packed:
            return data, ()

        try:
            found = await self._source.dump(message.RTM_GETRULE, RULES_V4, "rules", body)
            found6 = await self._source.dump(message.RTM_GETRULE, RULES_V6, "rules", body)
        except MeshwatchError:
            self.is_stale = True
            raise
        self.bodies = tuple(data for data, _ in (*found, *found6))
        known = self._known
        self._known = {data: each for data, _ in found if (each := known.get(data) or self._describe(data))}
