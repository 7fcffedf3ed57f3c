"""A peer's reflector on loopback: answers probes of a1 as b1 would, but for those it is told to lose."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from ipaddress import ip_address
from types import TracebackType
from typing import Self

from meshwatchd.wire.answer import Reflector
from meshwatchd.wire.auth import MeshKeys, node_id
from meshwatchd.wire.mesh_tlv import OwnState
from meshwatchd.wire.ntp import ntp_from_ns
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.reflect import reflect
from tests.support.wire_pair import A1, B1, SECRET

ADDRESS = "127.0.0.1"


class Echo:
    """Answers until the block ends.

    Args:
        is_lost: by sequence number; those requests get no answer.
        spoil: what becomes of an answer before it is sent.
    """

    def __init__(
        self, is_lost: Callable[[int], bool] = lambda _: False, spoil: Callable[[bytes], bytes] = bytes
    ) -> None:
        self._is_lost, self._spoil = is_lost, spoil
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((ADDRESS, 0))
        self.port: int = self._socket.getsockname()[1]
        self.requests: list[ParsedProbe] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", (ADDRESS, self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        key = MeshKeys(B1, [SECRET]).add_peer(A1)
        own = OwnState(node_id=node_id(B1), epoch=7)
        reflector = Reflector(addresses=frozenset({ip_address(ADDRESS).packed}))
        while True:
            data, asker = self._socket.recvfrom(4096)
            if not data:
                return
            parsed = verify_and_parse(data, key)
            assert isinstance(parsed, ParsedProbe), parsed
            self.requests.append(parsed)
            if self._is_lost(parsed.sequence):
                continue
            stamp = ntp_from_ns(time.time_ns())
            answer = reflect(
                data,
                parsed,
                key=key,
                own=own,
                reflector=reflector,
                reflector_sequence=len(self.requests),
                rx_ntp=stamp,
                tx_ntp=stamp,
                ttl=64,
            )
            self._socket.sendto(self._spoil(answer), asker)
