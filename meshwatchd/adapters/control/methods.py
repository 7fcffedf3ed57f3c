"""What the daemon answers to each call. One function a method, no word about sockets.

A method that is answered from memory returns its reply; one that waits (for the engine, or for events to come) returns
an iterator of replies, and whoever sends them decides when the next one is wanted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

import msgspec

import meshwatchd
from meshwatchd.adapters.control import bisection, forgetting, incidents, interface, operator_requests, topology
from meshwatchd.adapters.control.description import INTERFACES, describe
from meshwatchd.adapters.control.explain import explain
from meshwatchd.adapters.control.history import read_incidents
from meshwatchd.adapters.control.listen import OPERATORS, is_operator
from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.control.varlink import (
    CALLS,
    EXPECTED_MORE,
    INTERFACE_NOT_FOUND,
    INVALID_PARAMETER,
    METHOD_NOT_FOUND,
    PERMISSION_DENIED,
    Call,
    VarlinkError,
    encode_reply,
)
from meshwatchd.adapters.storage.event_store import EventLine, EventStore, FollowerTooSlowError
from meshwatchd.core.membership.node_list import collect_faults, remark_versions
from meshwatchd.model.bisection import BisectResult
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.errors import DecodeError, MeshwatchError
from meshwatchd.model.events import OperatorRequested, OperatorVerb
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.outputs import ReplyOperator
from meshwatchd.model.status import Status

OPERATE_TIMEOUT_S = 10.0
"""The engine answers within milliseconds, or not at all."""
BATCH_EVENTS = 256
SINGLE_REPLY_EVENTS = 1000
"""Events told to a client that does not take several replies: the latest."""

_Parameters = TypeVar("_Parameters", bound=msgspec.Struct)


class ControlBackend(Protocol):
    """What is asked of the agent."""

    def status(self) -> Status | None:
        """The engine's latest picture of itself; None before the first."""

    async def refresh(self) -> None:
        """Have `status` give the picture of this moment, if the engine gives any."""

    def view(self) -> LocalView | None:
        """What this node can tell of itself; None before the kernel has been read."""

    def events(self) -> EventStore:
        """The events kept."""

    def nodes(self) -> tuple[NodeStatus, ...]:
        """Every node of the mesh that is known."""

    async def bisect(self, peer: str) -> BisectResult:
        """Find out where packets to a node die; raises MeshwatchError."""

    def forget(self, node: str) -> bool:
        """Accept whatever identity a node of this name has next; whether one was remembered."""

    async def operate(self, request: OperatorRequested) -> ReplyOperator:
        """Ask the engine for something, under whatever number, and wait for its answer."""


HOLDS = frozenset({OperatorVerb.PIN, OperatorVerb.UNPIN, OperatorVerb.DRAIN, OperatorVerb.UNDRAIN})
"""What a member of the operators' group may ask for besides root.

They hold traffic, and so they move it: `pin` to the path of that rank, `drain` off this node, their ends back again.
The core binds members to more rules (`hold_requests.why_root_only`).
"""


class Methods:
    """Every method of every interface.

    Args:
        is_operator: whether a user may ask for HOLDS; may block, on LDAP or sssd.
    """

    def __init__(self, backend: ControlBackend, is_operator: Callable[[int], bool] = is_operator) -> None:
        self._backend, self._is_operator = backend, is_operator
        # One thread, and none of those that the agent's other work waits for.
        self._lookups = ThreadPoolExecutor(1, "operators")
        self._pictures: dict[str, Callable[[], msgspec.Struct]] = {
            "Status": lambda: StatusReply(status=self._status_of_mesh()),
            "Explain": self._explain,
            "Topology": self._topology,
            "Nodes": lambda: NodesReply(node=self._node(), nodes=backend.nodes()),
        }

    def answer(self, call: Call, uid: int) -> bytes | AsyncIterator[bytes]:
        """The reply to a call, or the replies one after the other.

        Raises:
            VarlinkError: is the reply. The iterator may raise it as well.
        """
        interface_name, _, name = call.method.rpartition(".")
        if interface_name not in INTERFACES:
            raise VarlinkError(INTERFACE_NOT_FOUND, interface=interface_name)
        if interface_name == interface.SERVICE:
            return encode_reply(_describe_service(call))
        method = interface.METHODS.get(name)
        if method is None:
            raise VarlinkError(METHOD_NOT_FOUND, method=name)
        match _decode(call, method.takes):
            case bisection.BisectParameters(node=node):
                _demand_root(uid)
                return self._bisect(node)
            case forgetting.ForgetParameters(node=node):
                _demand_root(uid)
                return encode_reply(forgetting.ForgetReply(was_known=self._backend.forget(node)))
            case interface.MtuParameters(node=asked):
                return self._show(lambda: self._mtu(asked or ""))
            case incidents.IncidentsParameters(number=number):
                return self._incidents(number)
            case interface.EventsParameters() as parameters:
                return self._events(call, parameters)
            case interface.NoParameters():
                return self._show(self._pictures[name])
            case parameters:
                return self._operate(_request(OperatorVerb(name.lower()), parameters), uid)

    async def _show(self, picture: Callable[[], msgspec.Struct]) -> AsyncIterator[bytes]:
        """A picture of this moment; none is made for a moment at which nobody looks."""
        await self._backend.refresh()
        yield encode_reply(picture())

    async def _bisect(self, node: str) -> AsyncIterator[bytes]:
        try:
            result = await self._backend.bisect(node)
        except MeshwatchError as error:
            raise VarlinkError(interface.NOT_ANSWERED, reason=str(error)) from error
        yield encode_reply(bisection.BisectReply(result=result))

    def _status(self) -> Status:
        status = self._backend.status()
        if status is None:
            raise VarlinkError(interface.NOT_READY, reason="the engine has not reported yet")
        return status

    def _status_of_mesh(self) -> Status:
        """The engine's picture, with what the other nodes report."""
        status, nodes = self._status(), self._backend.nodes()
        return msgspec.structs.replace(
            status, reported=collect_faults(nodes, status), remarks=remark_versions(nodes, status.node)
        )

    def _node(self) -> str:
        status, view = self._backend.status(), self._backend.view()
        return status.node if status is not None else view.node if view is not None else ""

    def _topology(self) -> topology.TopologyReply:
        view, status = self._backend.view(), self._backend.status()
        if view is None:
            raise VarlinkError(interface.NOT_READY, reason="the kernel has not been read yet")
        return topology.TopologyReply(view=view, pairs=() if status is None else status.pairs)

    def _mtu(self, node: str) -> interface.MtuReply:
        status = self._status()
        return interface.MtuReply(
            node=status.node,
            at_ns=status.at_ns,
            paths={str(path.number): "-".join(path.relays) for pair in status.pairs for path in pair.paths},
            sizes=tuple(line for line in status.sizes if node in ("", line.peer)),
        )

    def _explain(self) -> interface.ExplainReply:
        status = self._status_of_mesh()
        explanations = explain(status, self._backend.events().read(), self._backend.nodes())
        return interface.ExplainReply(
            node=status.node,
            mode=status.mode,
            at_ns=status.at_ns,
            explanations=explanations,
            findings=status.findings,
            reported=status.reported,
        )

    async def _incidents(self, number: int | None) -> AsyncIterator[bytes]:
        """Megabytes of files are read beside the loop."""
        lines = await asyncio.to_thread(self._backend.events().history)
        status = self._backend.status()
        found = await asyncio.to_thread(read_incidents, lines, number)
        yield encode_reply(incidents.IncidentsReply(node="" if status is None else status.node, incidents=found))

    def _operate(self, request: OperatorRequested, uid: int) -> AsyncIterator[bytes]:
        if request.is_dry_run or uid == 0:
            return self._await_engine(request)
        if request.verb not in HOLDS:
            raise VarlinkError(PERMISSION_DENIED)
        return self._hold(request, uid)

    async def _hold(self, request: OperatorRequested, uid: int) -> AsyncIterator[bytes]:
        """Of a user who is not root. The loop must not wait while somebody looks up groups."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(OPERATE_TIMEOUT_S):
                is_member = await loop.run_in_executor(self._lookups, self._is_operator, uid)
        except TimeoutError:
            reason = f"whether user {uid} is in {OPERATORS} was not answered within {OPERATE_TIMEOUT_S:.0f} s"
            raise VarlinkError(interface.NOT_ANSWERED, reason=reason) from None
        if not is_member:
            raise VarlinkError(PERMISSION_DENIED)
        async for reply in self._await_engine(msgspec.structs.replace(request, is_from_root=False)):
            yield reply

    async def _await_engine(self, request: OperatorRequested) -> AsyncIterator[bytes]:
        try:
            async with asyncio.timeout(OPERATE_TIMEOUT_S):
                reply = await self._backend.operate(request)
        except TimeoutError:
            reason = f"no answer of the engine within {OPERATE_TIMEOUT_S:.0f} s"
            raise VarlinkError(interface.NOT_ANSWERED, reason=reason) from None
        except MeshwatchError as error:
            raise VarlinkError(interface.NOT_ANSWERED, reason=str(error)) from error
        yield encode_reply(
            operator_requests.OperateReply(accepted=reply.is_accepted, text=reply.text, operations=reply.operations)
        )

    def _events(self, call: Call, parameters: interface.EventsParameters) -> bytes | AsyncIterator[bytes]:
        store, since_ns = self._backend.events(), parameters.since_ns or 0
        if call.more:
            return _tell_events(store, since_ns, follow=bool(parameters.follow))
        if parameters.follow:
            raise VarlinkError(EXPECTED_MORE)
        return _encode_events(store.read(since_ns)[-SINGLE_REPLY_EVENTS:])


_FIELDS = {"rank": "to_rank", "dry_run": "is_dry_run", "confirm_within_ns": "duration_ns"}
"""Parameters that the engine calls otherwise."""


def _request(verb: OperatorVerb, parameters: msgspec.Struct) -> OperatorRequested:
    """A call as the engine takes it; its number is given later."""
    given = {_FIELDS.get(name, name): value for name, value in msgspec.structs.asdict(parameters).items()}
    return OperatorRequested(
        request=0, verb=verb, **{name: value for name, value in given.items() if value is not None}
    )


async def _tell_events(store: EventStore, since_ns: int, *, follow: bool) -> AsyncIterator[bytes]:
    """Events in batches: those kept, and with `follow` those to come."""
    after, last = 0, store.last_seq
    while after < last and (batch := store.read(since_ns, after=after, limit=BATCH_EVENTS)):
        after = _seq(batch[-1])
        yield _encode_events(batch, continues=True)
    if not follow:
        yield _encode_events([])
        return
    after = max(after, last)
    try:
        while True:
            batch = await store.read_next(after, limit=BATCH_EVENTS)
            after = _seq(batch[-1])
            yield _encode_events(batch, continues=True)
    except FollowerTooSlowError as error:
        yield _encode_events([{"event": "events.lost", "at_ns": time.monotonic_ns(), "lost": error.lost}])


def _encode_events(events: list[EventLine], *, continues: bool = False) -> bytes:
    return encode_reply(interface.EventsReply(events=tuple(events)), continues=continues)


def _seq(line: EventLine) -> int:
    seq = line["seq"]
    assert isinstance(seq, int)
    return seq


_INFO: dict[str, object] = {
    "vendor": "meshwatchd",
    "product": "meshwatchd",
    "version": meshwatchd.__version__,
    "url": "https://varlink.org/",
    "interfaces": list(INTERFACES),
}


def _describe_service(call: Call) -> dict[str, object]:
    """The two methods of every Varlink service."""
    name = call.method.rpartition(".")[2]
    if name == "GetInfo":
        _decode(call, interface.NoParameters)
        return _INFO
    if name != "GetInterfaceDescription":
        raise VarlinkError(METHOD_NOT_FOUND, method=name)
    parameters = _decode(call, interface.DescriptionParameters)
    if parameters.interface not in INTERFACES:
        raise VarlinkError(INTERFACE_NOT_FOUND, interface=parameters.interface)
    return {"description": describe(parameters.interface)}


def _demand_root(uid: int) -> None:
    if uid != 0:
        raise VarlinkError(PERMISSION_DENIED)


def _decode(call: Call, kind: type[_Parameters]) -> _Parameters:
    """The parameters of a call; its complaint names the parameter."""
    try:
        return decode_json(call.parameters, kind, CALLS)
    except DecodeError as error:
        text = error.reason
        named = text.partition("`$.")[2] or text.partition("field `")[2]
        raise VarlinkError(INVALID_PARAMETER, parameter=named.partition("`")[0] or "parameters") from None
