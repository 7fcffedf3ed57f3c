"""An asked agent's socket on loopback, in a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

from meshwatchd.model.port_map import TAP_OFFSET
from meshwatchd.wire.tap_request import MAX_BYTES


class TapResponder:
    """Answers datagrams while it is entered.

    Args:
        answer: to each datagram; None is silence.

    Attributes:
        port: the probe port beside which it is found.
    """

    def __init__(self, answer: Callable[[bytes], bytes | None]) -> None:
        self._answer = answer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1] - TAP_OFFSET
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while True:
            data, asker = self._socket.recvfrom(MAX_BYTES)
            if not data:
                return
            answer = self._answer(data)
            if answer is not None:
                self._socket.sendto(answer, asker)
