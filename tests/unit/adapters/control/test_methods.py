"""What each method answers, without a socket."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import msgspec
import pytest

from meshwatchd.adapters.control import interface, methods
from meshwatchd.adapters.control.methods import Methods
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.control.varlink import VarlinkError, decode_call, decode_reply, encode_call
from meshwatchd.adapters.storage.event_store import EventStore
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.errors import ControlError
from meshwatchd.model.events import OperatorVerb
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.ids import NodeName
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.outputs import ReplyOperator
from tests.support.control_room import Backend
from tests.support.example_bisection import RESULT
from tests.support.example_reports import healthy, reporting
from tests.support.example_status import HEALTHY, status, verdict

ROOT, OPERATOR, SOMEBODY = 0, 998, 1000


def _parameters(message: bytes) -> dict[str, Any]:
    return msgspec.json.decode(decode_reply(message[:-1]).parameters, type=dict[str, Any])


def ask(
    backend: Backend, method: str, parameters: object = None, *, uid: int = ROOT, more: bool = False
) -> list[bytes]:
    """All replies to a call."""
    call = decode_call(encode_call(method, parameters, more=more)[:-1])
    reply = Methods(backend, lambda asking: asking == OPERATOR).answer(call, uid)
    if isinstance(reply, bytes):
        return [reply]

    async def collect() -> list[bytes]:
        return [message async for message in reply]

    return asyncio.run(collect())


def refusal(backend: Backend, method: str, parameters: object = None, **options) -> tuple[str, dict[str, object]]:
    """The error that a call gets."""
    with pytest.raises(VarlinkError) as caught:
        ask(backend, method, parameters, **options)
    return caught.value.name, caught.value.parameters


def test_the_service_names_itself_and_its_interfaces():
    """The first thing `varlinkctl info` asks."""
    (reply,) = ask(Backend(), "org.varlink.service.GetInfo")
    info = _parameters(reply)
    assert {"vendor", "product", "version", "url", "interfaces"} == set(info)
    assert ["org.varlink.service", "io.meshwatch.Control"] == info["interfaces"]


@pytest.mark.parametrize("name", ["org.varlink.service", "io.meshwatch.Control"])
def test_every_interface_is_described(name):
    """The first thing `varlinkctl introspect` asks."""
    (reply,) = ask(Backend(), "org.varlink.service.GetInterfaceDescription", {"interface": name})
    assert f"\ninterface {name}\n" in str(_parameters(reply)["description"])


@pytest.mark.parametrize(
    ("method", "parameters", "error"),
    [
        ("no.such.Thing", None, ("org.varlink.service.InterfaceNotFound", {"interface": "no.such"})),
        ("Thing", None, ("org.varlink.service.InterfaceNotFound", {"interface": ""})),
        ("io.meshwatch.Control.Nothing", None, ("org.varlink.service.MethodNotFound", {"method": "Nothing"})),
        (
            "org.varlink.service.GetInterfaceDescription",
            {"interface": "x.y"},
            ("org.varlink.service.InterfaceNotFound", {"interface": "x.y"}),
        ),
        ("io.meshwatch.Control.Status", {"x": 1}, ("org.varlink.service.InvalidParameter", {"parameter": "x"})),
        (
            "io.meshwatch.Control.Failover",
            {"rank": "best"},
            ("org.varlink.service.InvalidParameter", {"parameter": "rank"}),
        ),
        (
            "io.meshwatch.Control.Pause",
            {"duration_ns": 10**20, "dry_run": True},
            ("org.varlink.service.InvalidParameter", {"parameter": "duration_ns"}),
        ),
        ("io.meshwatch.Control.Failback", {"rank": 1}, ("org.varlink.service.InvalidParameter", {"parameter": "rank"})),
        ("io.meshwatch.Control.Events", {"follow": True}, ("org.varlink.service.ExpectedMore", {})),
    ],
)
def test_a_call_that_cannot_be_answered_gets_the_standards_error(method, parameters, error):
    """With the parameter that other implementations look at."""
    assert error == refusal(Backend(HEALTHY), method, parameters)


def test_status_is_the_engines_own():
    """Encoded once, by the type that everybody shares."""
    (reply,) = ask(Backend(HEALTHY), "io.meshwatch.Control.Status")
    raw = decode_reply(reply[:-1]).parameters
    assert HEALTHY == msgspec.json.decode(raw, type=StatusReply).status


@pytest.mark.parametrize("method", ["Status", "Explain", "Topology", "Nodes", "Mtu"])
def test_whoever_looks_has_the_picture_of_this_moment(method):
    """The engine makes none while nobody does."""
    backend = Backend(HEALTHY)
    backend.seen = LocalView(profiles=("kilo",), node=NodeName("b3"))
    ask(backend, f"io.meshwatch.Control.{method}")
    assert 1 == backend.refreshed


@pytest.mark.parametrize("method", ["Status", "Explain"])
def test_before_the_first_report_there_is_an_error(method):
    """An empty status would be a lie."""
    name, parameters = refusal(Backend(), f"io.meshwatch.Control.{method}")
    assert ("io.meshwatch.Control.NotReady", "the engine has not reported yet") == (name, parameters["reason"])


def test_acting_is_for_root_alone():
    """Nothing reaches the engine."""
    backend = Backend(HEALTHY)
    assert ("org.varlink.service.PermissionDenied", {}) == refusal(
        backend, "io.meshwatch.Control.Failover", uid=SOMEBODY
    )
    assert [] == backend.asked


def test_nodes_are_those_that_are_known():
    """Whether or not the engine has reported."""
    backend = Backend()
    backend.known = (NodeStatus(name=NodeName("b1"), version="0.1", heard_ago_ns=5),)
    (reply,) = ask(backend, "io.meshwatch.Control.Nodes")
    assert "" == _parameters(reply)["node"]
    assert ["b1"] == [each["name"] for each in _parameters(reply)["nodes"]]


def test_status_has_what_other_nodes_report():
    """It is put together when somebody asks."""
    backend = Backend(HEALTHY)
    backend.known = reporting()
    (reply,) = ask(backend, "io.meshwatch.Control.Status")
    assert ["b1", "b2"] == [each["reported_by"] for each in _parameters(reply)["status"]["reported"]]


@pytest.mark.parametrize("verb", OperatorVerb)
def test_operators_hold_traffic_and_do_nothing_else(verb):
    """They pin and drain; switching, pausing and confirming are root's, as are bisections and identities."""
    backend = Backend(HEALTHY)
    method = f"io.meshwatch.Control.{verb.capitalize()}"
    if verb in {OperatorVerb.PIN, OperatorVerb.UNPIN, OperatorVerb.DRAIN, OperatorVerb.UNDRAIN}:
        ask(backend, method, uid=OPERATOR)
        assert [(verb, False)] == [(request.verb, request.is_from_root) for request in backend.requests]
    else:
        assert ("org.varlink.service.PermissionDenied", {}) == refusal(backend, method, uid=OPERATOR)
        assert [] == backend.requests
    for other in ("Bisect", "Forget"):
        name, _ = refusal(backend, f"io.meshwatch.Control.{other}", {"node": "b1"}, uid=OPERATOR)
        assert "org.varlink.service.PermissionDenied" == name


def test_root_is_asked_of_no_group():
    """And the engine knows whose request it is; a dry run is anybody's."""
    for uid, is_dry_run in ((ROOT, False), (SOMEBODY, True)):
        backend = Backend(HEALTHY)
        ask(backend, "io.meshwatch.Control.Unpin", {"dry_run": is_dry_run}, uid=uid)
        assert [True] == [request.is_from_root for request in backend.requests]


def test_a_group_that_is_looked_up_slowly_holds_up_nobody_else(monkeypatch):
    """LDAP that does not answer must not stop the agent's loop, and the caller hears of it."""
    monkeypatch.setattr(methods, "OPERATE_TIMEOUT_S", 0.05)
    is_over, backend = threading.Event(), Backend(HEALTHY)
    asked = Methods(backend, lambda _: is_over.wait(60))
    reply = asked.answer(decode_call(encode_call("io.meshwatch.Control.Drain", None)[:-1]), OPERATOR)
    assert not isinstance(reply, bytes)

    async def first() -> bytes:
        return await anext(reply)

    with pytest.raises(VarlinkError) as caught:
        asyncio.run(first())
    is_over.set()
    assert {"reason": "whether user 998 is in meshwatch-operators was not answered within 0 s"} == (
        caught.value.parameters
    )
    assert [] == backend.requests


def test_explain_knows_what_the_nodes_on_the_other_side_report():
    """Of connections that fail from here, whether they fail from there as well."""
    backend = Backend(status(verdict(FaultCode.KUBELET_UNREACHABLE, culprit="a3")))
    backend.known = healthy()
    (reply,) = ask(backend, "io.meshwatch.Control.Explain")
    ((sentence,),) = (each["because"] for each in _parameters(reply)["explanations"])
    assert sentence.startswith("a3 reports that all is well")


def test_bisecting_is_for_root_alone_and_names_the_node():
    """It makes the node send packets by hand; the result is the agent's own."""
    backend = Backend()

    assert ("org.varlink.service.PermissionDenied", {}) == refusal(
        backend, "io.meshwatch.Control.Bisect", {"node": "b1"}, uid=SOMEBODY
    )
    (reply,) = ask(backend, "io.meshwatch.Control.Bisect", {"node": "b1"})
    assert ["b1"] == backend.bisected
    assert msgspec.json.decode(msgspec.json.encode(RESULT)) == _parameters(reply)["result"]


def test_forgetting_an_identity_is_for_root_alone():
    """Whoever comes next has the name."""
    method, parameters = "io.meshwatch.Control.Forget", {"node": "b1"}

    assert ("org.varlink.service.PermissionDenied", {}) == refusal(Backend(), method, parameters, uid=SOMEBODY)
    for node, was_known in (("b1", True), ("x9", False)):
        (reply,) = ask(Backend(), method, {"node": node})
        assert {"was_known": was_known} == _parameters(reply)


def test_a_bisection_that_fails_gives_its_reason():
    """No such node, no answer of the process: an error, and the connection goes on."""
    backend = Backend()
    backend.bisection = ControlError(3, "there is no node x9 in this mesh")

    name, parameters = refusal(backend, "io.meshwatch.Control.Bisect", {"node": "x9"})
    assert (interface.NOT_ANSWERED, {"reason": "there is no node x9 in this mesh"}) == (name, parameters)


def test_looking_at_what_would_be_done_is_for_everybody():
    """A dry run changes nothing."""
    backend = Backend(HEALTHY)
    parameters = {"location": "onprem", "rank": 2, "dry_run": True}
    (reply,) = ask(backend, "io.meshwatch.Control.Failover", parameters, uid=SOMEBODY)
    assert [(OperatorVerb.FAILOVER, "onprem", 2, True)] == backend.asked
    assert {"accepted": True, "text": "moves", "operations": ["ip rule add pref 5460"]} == _parameters(reply)


def test_failback_asks_for_the_only_location_by_default():
    """An empty location is how the engine is told."""
    backend = Backend(HEALTHY)
    ask(backend, "io.meshwatch.Control.Failback")
    assert [(OperatorVerb.FAILBACK, "", None, False)] == backend.asked


class Silent(Backend):
    """An engine that does not answer."""

    async def operate(self, request) -> ReplyOperator:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError


class Broken(Backend):
    """An engine that is gone."""

    async def operate(self, request) -> ReplyOperator:
        """Fail."""
        raise ControlError(3, "the link is closed")


@pytest.mark.parametrize(
    ("backend", "reason"), [(Silent(), "no answer of the engine within 0 s"), (Broken(), "the link is closed")]
)
def test_an_engine_that_does_not_answer_is_an_error_not_a_hang(monkeypatch, backend, reason):
    """The operator is told to look instead of to wait."""
    monkeypatch.setattr(methods, "OPERATE_TIMEOUT_S", 0.01)
    name, parameters = refusal(backend, "io.meshwatch.Control.Failover")
    assert ("io.meshwatch.Control.NotAnswered", reason) == (name, parameters["reason"])


def test_events_come_in_batches_to_who_takes_them():
    """The last reply says that it is the last."""
    backend = Backend()
    for at_ns in range(600):
        backend.store.append({"at_ns": at_ns, "event": "test.happened"})
    replies = ask(backend, "io.meshwatch.Control.Events", {"since_ns": 10}, more=True)
    assert [256, 256, 78, 0] == [len(_parameters(reply)["events"]) for reply in replies]
    assert [True, True, True, False] == [decode_reply(reply[:-1]).continues for reply in replies]


def test_events_come_at_once_to_who_does_not():
    """The latest of them, so that a reply stays of a size."""
    backend = Backend()
    for at_ns in range(1200):
        backend.store.append({"at_ns": at_ns, "event": "test.happened"})
    (reply,) = ask(backend, "io.meshwatch.Control.Events")
    events = _parameters(reply)["events"]
    assert (1000, 1199) == (len(events), events[-1]["at_ns"])


def test_a_slow_follower_is_told_what_it_lost():
    """The last line says so, instead of a silent gap."""

    async def scenario() -> list[bytes]:
        backend = Backend()
        backend.store = EventStore(capacity=2)
        call = decode_call(encode_call("io.meshwatch.Control.Events", {"follow": True}, more=True)[:-1])
        replies = Methods(backend).answer(call, SOMEBODY)
        assert not isinstance(replies, bytes)
        backend.store.append({"at_ns": 1, "event": "test.happened"})
        first = await anext(replies)
        for at_ns in range(10):
            backend.store.append({"at_ns": at_ns, "event": "test.happened"})
        return [first, *[reply async for reply in replies]]

    *_, last = asyncio.run(scenario())
    (event,) = _parameters(last)["events"]
    assert ("events.lost", 8) == (event["event"], event["lost"])
    assert not decode_reply(last[:-1]).continues


def test_the_topology_is_the_view_and_the_paths():
    """Paths come with the engine's first report, the view with the kernel."""
    backend = Backend()
    assert (interface.NOT_READY, {"reason": "the kernel has not been read yet"}) == refusal(
        backend, "io.meshwatch.Control.Topology"
    )

    backend.seen = LocalView(profiles=("kilo",), node=NodeName("b3"))
    (early,) = ask(backend, "io.meshwatch.Control.Topology", uid=SOMEBODY)
    backend.current = HEALTHY
    (late,) = ask(backend, "io.meshwatch.Control.Topology", uid=SOMEBODY)

    assert ("b3", []) == (_parameters(early)["view"]["node"], _parameters(early)["pairs"])
    assert "onprem" == _parameters(late)["pairs"][0]["remote_location"]
