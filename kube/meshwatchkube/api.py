"""The API as one of several processes: the Lease, the picture of Nodes, and what is written.

Whatever fails is reported once and tried again later, and nothing else happens: the picture gets old, the Lease is
lost, and both keep decisions from being carried out.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import ConfigError, DecodeError
from meshwatchkube import lease as leases
from meshwatchkube.actions import Tell, Written
from meshwatchkube.cluster import Cluster, Lease, Metadata
from meshwatchkube.http import CONFLICT, NOT_FOUND, ApiError, Http
from meshwatchkube.memory import ANNOTATION, Memory, decode, encode
from meshwatchkube.pace import Backoff, Say
from meshwatchkube.requests import ANSWER, Request, request_of
from meshwatchkube.settings import Settings
from meshwatchkube.watch import NodeWatch

LEASES: Final = "apis/coordination.k8s.io/v1/namespaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Monotonic and Unix time, both in nanoseconds."""

    monotonic: Callable[[], int] = time.monotonic_ns
    unix: Callable[[], int] = time.time_ns


class Api:
    """The connection of one process.

    Args:
        settings: of the whole file.
        connect: makes a connection; the watch has one of its own.
        identity: of this process, in the Lease.
        node: the node it runs on.
        say: writes a line.
    """

    def __init__(
        self, settings: Settings, connect: Callable[[], Http], *, identity: str, node: str, say: Say, clocks: Clocks
    ) -> None:
        self._settings, self._connect, self._clocks, self._say = settings, connect, clocks, say
        self._identity, self._node = identity, node
        self._http = connect()
        self._dice = random.Random(identity)
        self._backoff, self._kubeconfig = (Backoff(what, say, self._dice) for what in ("lease", "kubeconfig"))
        self._writes: dict[str, Backoff] = {}
        self._watch: NodeWatch | None = None
        self._seen: leases.Seen | None = None
        self._renewed_ns: int | None = None
        self._read_ns: int | None = None
        self._next_ns = 0
        self._is_readable = self._is_fit = True

    def look(self, node: str = "", *, is_fit: bool = True) -> tuple[Cluster, Memory | None]:
        """Renew or try to take the Lease where that is due; returns what is known.

        Args:
            node: what the daemon calls this machine, which its host name need not be; empty where that is not known.
            is_fit: this process has a daemon to decide by; from one without, any that has one may take the Lease.
        """
        self._node = node or self._node
        if is_fit and not self._is_fit:
            # Somebody may have taken it by now.
            self._renewed_ns, self._next_ns = None, 0
        self._is_fit = is_fit
        now = self._clocks.monotonic()
        if now >= self._next_ns and self._backoff.is_due(now):
            self._next_ns = now + self._settings.lease.duration // 3
            self._attempt(self._elect)
        self._choose_watch()
        nodes, is_fresh = self._watch.picture(self._settings.api.stale_after) if self._watch else ({}, False)
        return Cluster(nodes=nodes, is_fresh=is_fresh, is_writer=self.is_writer), self._memory()

    @property
    def is_writer(self) -> bool:
        """Whether this process holds the Lease and nobody else may think that it is free."""
        limit_ns = self._settings.lease.duration * 2 // 3
        return self._renewed_ns is not None and self._clocks.monotonic() - self._renewed_ns < limit_ns

    def remember(self, memory: Memory) -> bool:
        """Write the memory; whether it is written, and what follows from it may be done."""
        seen = self._seen
        if seen is None or not self.is_writer:
            return False
        metadata = seen.lease.metadata
        annotations = {**(metadata.annotations or {}), ANNOTATION: encode(memory)}
        changed = msgspec.structs.replace(
            seen.lease, metadata=msgspec.structs.replace(metadata, annotations=annotations)
        )
        return self._attempt(lambda: self._put(self._held(changed)))

    def write(self, action: Written) -> bool:
        """Carry out an action; whether it is done. A Node that has changed meanwhile is looked at again."""
        kind = type(action).__name__
        backoff = self._writes.setdefault(kind, Backoff(kind, self._say, self._dice))
        if not self.is_writer or not backoff.is_due(self._clocks.monotonic()):
            return False
        try:
            answer = self._http.send(request_of(action, self._clocks.unix()))
        except ApiError as failure:
            if failure.status not in (CONFLICT, NOT_FOUND):
                backoff.failed(str(failure), self._clocks.monotonic())
            return False
        backoff.worked()
        if self._watch is not None and not isinstance(action, Tell) and not action.is_dry:
            self._watch.learn(answer)
        return True

    def close(self) -> None:
        """Give the Lease back, so that nobody has to wait for its end, and stop."""
        if self._watch is not None:
            self._watch.stop()
        if self._seen is not None and self.is_writer:
            spec = msgspec.structs.replace(self._seen.lease.spec, holder_identity=None, lease_duration_seconds=1)
            self._attempt(lambda: self._put(msgspec.structs.replace(self._lease, spec=spec)))
        self._renewed_ns = None
        self._http.close()

    # --- the Lease -----------------------------------------------------------------------------------

    @property
    def _lease(self) -> Lease:
        assert self._seen is not None, "read before it is written"
        return self._seen.lease

    def _attempt(self, make: Callable[[], None]) -> bool:
        """Do something to the Lease; False where that failed. Another writer's is no failure."""
        try:
            make()
        except ApiError as failure:
            if failure.status == CONFLICT:
                self._renewed_ns, self._next_ns = None, 0
                return False
            self._backoff.failed(str(failure), self._clocks.monotonic())
            return False
        except DecodeError as error:
            self._backoff.failed(str(error), self._clocks.monotonic())
            return False
        self._backoff.worked()
        return True

    def _elect(self) -> None:
        path = f"{LEASES}/{self._settings.api.namespace}/leases"
        name = self._settings.lease.name
        try:
            answer = self._http.send(Request(method="GET", path=f"{path}/{name}"))
        except ApiError as failure:
            if failure.status != NOT_FOUND:
                raise
            metadata = Metadata(name=name, namespace=self._settings.api.namespace)
            self._note(self._http.send(self._request("POST", path, self._held(Lease(metadata=metadata)))))
            self._won()
            return
        self._note(answer)
        assert self._seen is not None
        self._read_ns = self._clocks.monotonic()
        is_ours = self._lease.spec.holder_identity == self._identity
        is_offered = self._is_fit and leases.is_offered(self._lease)
        if is_ours or is_offered or leases.is_free(self._seen, self._clocks.monotonic()):
            self._put(self._held(self._lease))
        else:
            self._renewed_ns = None

    def _held(self, lease: Lease) -> Lease:
        held = leases.held_by(
            lease, self._identity, duration_ns=self._settings.lease.duration, unix_ns=self._clocks.unix()
        )
        return leases.offered(held, is_offered=not self._is_fit)

    def _put(self, lease: Lease) -> None:
        """Replace the Lease in the version that was read; anybody else's write since then is a conflict."""
        path = f"{LEASES}/{self._settings.api.namespace}/leases/{self._settings.lease.name}"
        asked_ns = self._clocks.monotonic()
        self._note(self._http.send(self._request("PUT", path, lease)))
        self._renewed_ns = asked_ns
        self._read_ns = asked_ns

    def _request(self, method: str, path: str, lease: Lease) -> Request:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **msgspec.to_builtins(lease)}
        return Request(method=method, path=path, body=body)

    def _note(self, answer: bytes) -> None:
        self._seen = leases.note(self._seen, decode_json(answer, Lease, ANSWER), self._clocks.monotonic())

    def _won(self) -> None:
        self._renewed_ns = self._read_ns = self._clocks.monotonic()

    def _memory(self) -> Memory | None:
        """What the Lease says, if that was read lately enough to act on."""
        if self._seen is None or self._read_ns is None:
            return None
        if self._clocks.monotonic() - self._read_ns > self._settings.lease.duration:
            return None
        text = (self._lease.metadata.annotations or {}).get(ANNOTATION, "")
        try:
            memory = decode(text)
        except DecodeError as error:
            if self._is_readable:
                self._say("memory.unreadable", level="error", why=str(error))
            self._is_readable = False
            return None
        self._is_readable = True
        return memory

    # --- the Nodes -----------------------------------------------------------------------------------

    def _choose_watch(self) -> None:
        """The writer watches all Nodes; others their own at most, or a thousand of them would watch a thousand."""
        wanted = "" if self.is_writer else self._node
        is_wanted = self.is_writer or self._settings.drain.follow
        if self._watch is not None and (not is_wanted or self._watch.only != wanted):
            self._watch.stop()
            self._watch = None
        if self._watch is None and is_wanted and self._kubeconfig.is_due(self._clocks.monotonic()):
            self._start_watch(wanted)

    def _start_watch(self, only: str) -> None:
        """By the kubeconfig of this moment: somebody may be writing it, or have taken the right to read it."""
        try:
            http = self._connect()
        except ConfigError as error:
            self._kubeconfig.failed(str(error), self._clocks.monotonic())
            return
        self._kubeconfig.worked()
        backoff = Backoff("nodes", self._say, random.Random(f"{self._identity} nodes"))
        self._watch = NodeWatch(http, backoff, self._clocks.monotonic, only)
        self._watch.start()
