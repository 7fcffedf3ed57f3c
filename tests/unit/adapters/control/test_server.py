"""The server on a real socket: many clients, rude ones among them."""

from __future__ import annotations

import asyncio
import socket

import msgspec
import pytest

from meshwatchd.adapters.control import server as server_module
from meshwatchd.adapters.control.varlink import Reply, Splitter, decode_reply, encode_call
from tests.support.control_room import Backend, Failures, control_room
from tests.support.example_status import HEALTHY

STATUS = encode_call("io.meshwatch.Control.Status")
FOLLOW = encode_call("io.meshwatch.Control.Events", {"follow": True}, more=True)


@pytest.fixture
def room(tmp_path):
    """A server with a healthy mesh to tell of."""
    with control_room(tmp_path / "control.sock", Backend(HEALTHY)) as running:
        yield running


def connect(room) -> socket.socket:
    """A client that fails instead of waiting for ever."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(room.path))
    return client


def read_replies(client: socket.socket, count: int) -> list[Reply]:
    """So many replies; fewer when the server hangs up."""
    splitter = Splitter()
    replies: list[Reply] = []
    while len(replies) < count and (data := client.recv(65536)):
        replies += [decode_reply(message) for message in splitter.feed(data)]
    return replies


def test_calls_are_answered_in_order(room):
    """Also when they are sent ahead, and when one of them has to wait."""
    with connect(room) as client:
        client.sendall(STATUS + encode_call("io.meshwatch.Control.Failback") + encode_call("x.y.Z") + STATUS)
        replies = read_replies(client, 4)
    members = [reply.error or next(iter(msgspec.json.decode(reply.parameters))) for reply in replies]
    assert ["status", "accepted", "org.varlink.service.InterfaceNotFound", "status"] == members


def test_a_call_without_reply_gets_none(room):
    """`oneway` is the standard's word for it."""
    with connect(room) as client:
        client.sendall(b'{"method":"io.meshwatch.Control.Status","oneway":true}\0' + encode_call("x.y.Z"))
        (reply,) = read_replies(client, 1)
    assert "org.varlink.service.InterfaceNotFound" == reply.error


@pytest.mark.parametrize("data", [b"no json\0", b"x" * (64 * 1024 + 1)])
def test_what_is_no_message_ends_the_connection(room, data):
    """Said once, then hung up; others are served on."""
    with connect(room) as client:
        client.sendall(data)
        (reply,) = read_replies(client, 2)
    assert "org.varlink.service.InvalidParameter" == reply.error
    with connect(room) as client:
        client.sendall(STATUS)
        assert [""] == [reply.error for reply in read_replies(client, 1)]


def test_a_follower_hears_of_what_happens(room):
    """First what is kept, then what comes."""
    room.backend.store.append({"at_ns": 1, "event": "daemon.started"})
    with connect(room) as client:
        client.sendall(FOLLOW)
        (kept,) = read_replies(client, 1)
        room.append({"at_ns": 2, "event": "daemon.ready"})
        (fresh,) = read_replies(client, 1)
    names = [msgspec.json.decode(reply.parameters)["events"][0]["event"] for reply in (kept, fresh)]
    assert ["daemon.started", "daemon.ready"] == names


@pytest.mark.parametrize("before", [b"", STATUS], ids=["at once", "behind a call that waits"])
@pytest.mark.parametrize(("method", "asks"), [("Topology", "view"), ("Forget", "forget")])
def test_a_call_that_this_daemon_fails_to_answer_ends_its_own_connection_alone(room, method, asks, before):
    """The error is told in the log, and all other clients are served on."""
    name, parameters = f"io.meshwatch.Control.{method}", {"node": "b1"} if method == "Forget" else None

    def mistake(*_):
        raise RuntimeError("a mistake")

    setattr(room.backend, asks, mistake)
    with connect(room) as other, connect(room) as client:
        client.sendall(before + encode_call(name, parameters) + STATUS)
        assert [""] * bool(before) == [reply.error for reply in read_replies(client, 3)]
        other.sendall(STATUS)
        assert [""] == [reply.error for reply in read_replies(other, 1)]
    assert [("control.failed", name, "RuntimeError('a mistake')")] == room.failures.told


def test_too_many_clients_are_told_so(room, monkeypatch):
    """And a place that becomes free is given away again, a follower's too."""
    monkeypatch.setattr(server_module, "MAX_CLIENTS", 2 + server_module.RESERVED_CLIENTS)
    room.uid = 1000
    first, second = connect(room), connect(room)
    for client in (first, second):
        client.sendall(STATUS)
        read_replies(client, 1)
    with connect(room) as third:
        (reply,) = read_replies(third, 2)
        assert "io.meshwatch.Control.TooManyClients" == reply.error
    first.sendall(FOLLOW)
    first.close()
    for _ in range(1000):
        with connect(room) as fourth:
            fourth.sendall(STATUS)
            if [""] == [reply.error for reply in read_replies(fourth, 1)]:
                break
    else:
        pytest.fail("the place of a client that has gone is not given away")
    second.close()


def test_root_gets_in_however_many_are_connected(room, monkeypatch):
    """Strangers leave places for root; where root's own programs have these, the one that is idle for longest goes."""
    monkeypatch.setattr(server_module, "MAX_CLIENTS", 5)
    monkeypatch.setattr(server_module, "RESERVED_CLIENTS", 2)
    room.append({"at_ns": 1, "event": "daemon.started"})
    clients = []
    for uid, call in ((1000, FOLLOW), (1000, STATUS), (1000, FOLLOW), (0, STATUS), (0, FOLLOW), (0, STATUS)):
        room.uid = uid
        clients.append(connect(room))
        clients[-1].sendall(call)
        assert [""] == [reply.error for reply in read_replies(clients[-1], 1)]
    room.uid = 1000
    with connect(room) as stranger:
        assert ["io.meshwatch.Control.TooManyClients"] == [reply.error for reply in read_replies(stranger, 2)]

    assert b"" == clients[1].recv(10)
    for client in (*clients[:1], *clients[2:]):
        client.sendall(STATUS)
    assert [""] == [reply.error for reply in read_replies(clients[3], 1)]
    for client in clients:
        client.close()


def test_an_idle_connection_ends_and_a_follower_does_not(tmp_path, monkeypatch):
    """The follower waits for events, for as long as it takes."""
    monkeypatch.setattr(server_module, "LOOK_S", 0.01)
    monkeypatch.setattr(server_module, "IDLE_S", 0.2)
    serving = control_room(tmp_path / "control.sock", Backend(HEALTHY))
    with serving as room, connect(room) as idle, connect(room) as follower:
        room.append({"at_ns": 1, "event": "daemon.started"})
        follower.sendall(FOLLOW)
        read_replies(follower, 1)
        idle.sendall(STATUS)
        assert 1 == len(read_replies(idle, 1))
        assert b"" == idle.recv(10)
        with connect(room) as silent:
            assert b"" == silent.recv(10)
        room.append({"at_ns": 2, "event": "daemon.ready"})
        assert 1 == len(read_replies(follower, 1))


def test_a_client_that_does_not_read_holds_up_nobody(room):
    """It asks for megabytes and takes none; another one is served meanwhile."""
    filler = "x" * 10_000
    for at_ns in range(2000):
        room.backend.store.append({"at_ns": at_ns, "event": "test.happened", "filler": filler})
    with connect(room) as rude, connect(room) as polite:
        rude.sendall(FOLLOW)
        for _ in range(20):
            polite.sendall(STATUS)
            assert [""] == [reply.error for reply in read_replies(polite, 1)]


def test_a_stranger_may_look_and_not_act(tmp_path):
    """The user is the one that the kernel tells."""
    with control_room(tmp_path / "control.sock", Backend(HEALTHY), uid=1000) as room, connect(room) as client:
        client.sendall(STATUS + encode_call("io.meshwatch.Control.Failover"))
        looked, acted = read_replies(client, 2)
    assert ("", "org.varlink.service.PermissionDenied") == (looked.error, acted.error)
    assert [] == room.backend.asked


def test_the_socket_is_removed_at_the_end(tmp_path):
    """And clients are hung up on."""
    path = tmp_path / "control.sock"
    with control_room(path, Backend(HEALTHY)) as room:
        client = connect(room)
        client.sendall(STATUS + FOLLOW)
        read_replies(client, 1)
    assert not path.exists()
    with client:
        assert b"" == client.recv(10)


def test_a_socket_that_somebody_removed_is_given_up(tmp_path, monkeypatch):
    """Whoever runs the server makes another one; else nobody could ask a daemon that is well."""
    monkeypatch.setattr(server_module, "LOOK_S", 0.01)
    path = tmp_path / "control.sock"

    async def story() -> None:
        async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
            tasks.create_task(server_module.ControlServer(path, Backend(HEALTHY), Failures()).serve())
            await asyncio.sleep(0)
            path.unlink()
            path.touch()  # whatever is there in its place is not ours to remove

    asyncio.run(story())
    assert path.exists()


HOSTILE = (b"\xff", b'{"method":"\xff"}', b"9" * 400, b'{"method":"x.y.Z","parameters":' + b"[" * 60_000)


@pytest.mark.parametrize("message", HOSTILE)
@pytest.mark.parametrize("before", [b"", encode_call("io.meshwatch.Control.Failback")])
def test_what_is_no_call_ends_one_connection_and_no_other(room, message, before):
    """Also behind a call that waits, where the task group of all clients would be the next to hear of it."""
    with connect(room) as other, connect(room) as rude:
        other.sendall(FOLLOW)
        rude.sendall(before + message + b"\0")
        *_, refusal = read_replies(rude, 3)
        room.append({"event": "seen", "at_ns": 1})
        (told,) = read_replies(other, 1)
    with connect(room) as late:
        late.sendall(STATUS)
        assert "" == read_replies(late, 1)[0].error

    assert ("org.varlink.service.InvalidParameter", "") == (refusal.error, told.error)


def test_a_hundred_thousand_brackets_are_more_than_a_message_may_have(room):
    """The connection is closed; nobody else notices."""
    with connect(room) as rude, connect(room) as other:
        rude.sendall(b"[" * 100_000 + b"\0")
        assert "org.varlink.service.InvalidParameter" == read_replies(rude, 1)[0].error
        other.sendall(STATUS)
        assert "" == read_replies(other, 1)[0].error


@pytest.mark.parametrize(
    ("method", "parameter"),
    [("Events", "since_ns"), ("Failover", "confirm_within_ns"), ("Pause", "duration_ns"), ("Failover", "rank")],
)
def test_a_number_that_no_frame_can_carry_is_refused(room, method, parameter):
    """It would end the agent where that tells the engine of it."""
    with connect(room) as client:
        call = b'{"method":"io.meshwatch.Control.%s","parameters":{"%s":%s}}\0'
        client.sendall(call % (method.encode(), parameter.encode(), b"9" * 400) + STATUS)
        refused, status = read_replies(client, 2)

    assert ("org.varlink.service.InvalidParameter", "") == (refused.error, status.error)
    assert [] == room.backend.requests
