"""Three nodes on loopback addresses ask each other, directly and through one that vouches."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import socket
from functools import partial

import pytest

from meshwatchd.adapters import way_socket
from meshwatchd.adapters.host.proc import read_forwarding
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.outer_reroute import FarNode, Relay, Way, WayQuestion
from meshwatchd.model.port_map import direct_port, relayed_port
from meshwatchd.model.settings import AuthSettings, MeshSettings
from meshwatchd.model.topology import Node
from meshwatchd.runtime import way_desk
from meshwatchd.runtime.way_desk import WayDesk
from meshwatchd.wire.auth import MeshKeys, MeshSecret, Purpose
from meshwatchd.wire.way_question import WayContent, WayKind, WayMessage, encode

SECRET = bytes(range(32))
ADDRESSES = {"e1": "127.0.1.1", "e2": "127.0.1.2", "w1": "127.0.2.1"}


def _node(name):
    return Node(
        name=NodeName(name),
        location=LocationName("east" if name[0] == "e" else "west"),
        node_ip=ADDRESSES[name],
        pod_cidr="",
        overlay_ip=ADDRESSES[name].replace("127.0", "127.1"),
    )


MESH = MeshSettings(node=tuple(_node(name) for name in ADDRESSES))
FAR = FarNode(name="w1", address=ADDRESSES["w1"], overlay="127.1.2.1")
RELAY = Relay(name="e2", address=ADDRESSES["e2"], device="lo", source=ADDRESSES["e1"])


class Warnings:
    """A log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.lines.append(event)


@pytest.fixture
def auth(tmp_path):
    """A key file that a daemon would believe."""
    path = tmp_path / "mesh.key"
    path.write_text(base64.b64encode(SECRET).decode() + "\n", encoding="ascii")
    path.chmod(0o600)
    return AuthSettings(key_file=str(path))


def _free_port() -> int:
    """A probe.port both of whose ports are free."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("", 0))
        return min(60_000, int(probe.getsockname()[1])) - 493


def _desk(name, auth, port, *, is_willing=True, log=None):
    """One that hears at its own address alone: all share a machine."""
    return WayDesk(name, auth, port, mesh=lambda: MESH, is_willing=lambda: is_willing, log=log or Warnings())


@contextlib.asynccontextmanager
async def _serving(monkeypatch, *desks):
    """Serve some desks, each at an address: its own one, or the one beside it. All share a machine."""
    async with asyncio.TaskGroup() as group:
        tasks = []
        for each in desks:
            desk, address = each if isinstance(each, tuple) else (each, ADDRESSES[each._node])
            tasks.append(group.create_task(desk.serve()))
            monkeypatch.setattr(way_socket, "listen", partial(_bound, address))
            await asyncio.sleep(0.01)
        yield
        for task in tasks:
            task.cancel()


def _bound(address, port):
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    opened.setsockopt(socket.IPPROTO_IP, way_socket._IP_PKTINFO, 1)
    opened.bind((address, port))
    return opened


def _question(way, **words):
    return WayQuestion(way=way, node="w1", **words)


def test_a_node_is_asked_directly_and_through_another_port(auth, monkeypatch):
    """And says which source it saw; a large question is answered as well."""
    port = _free_port()

    async def scenario():
        async with _serving(monkeypatch, _desk("w1", auth, port)):
            asker = _desk("e1", auth, port)
            direct = await asker.ask(_question(Way.DIRECT), FAR, None, 1500)
            relayed = await asker.ask(_question(Way.RELAYED, is_full=True), FAR, None, 1500)
            overlay = await asker.ask(_question(Way.OVERLAY), FAR, None, 1500)
        return direct, relayed, overlay

    direct, relayed, overlay = asyncio.run(scenario())
    assert ADDRESSES["e1"] == direct.seen == relayed.seen
    assert direct.is_reached
    assert overlay is None  # nobody listens at the address among its pods here


@pytest.mark.parametrize("is_willing", [True, False])
def test_a_neighbour_asks_the_node_itself_and_reports(auth, monkeypatch, is_willing):
    """And whether it may be made a relay."""
    port = _free_port()

    async def scenario():
        reporter = _desk("e2", auth, port, is_willing=is_willing)
        async with _serving(monkeypatch, reporter, _desk("w1", auth, port), (_desk("w1", auth, port), FAR.overlay)):
            reached = await _desk("e1", auth, port).ask(_question(Way.VOUCHED, relay="e2"), FAR, RELAY, 1500)
        async with _serving(monkeypatch, reporter):
            lost = await _desk("e1", auth, port).ask(_question(Way.VOUCHED, relay="e2"), FAR, RELAY, 1500)
        return reached, lost

    reached, lost = asyncio.run(scenario())
    assert reached.is_reached
    assert not lost.is_reached
    forwards = read_forwarding() is not False
    assert reached.is_willing is (is_willing and forwards)


@pytest.mark.parametrize("answering", [ADDRESSES["w1"], FAR.overlay], ids=["host", "overlay"])
def test_a_neighbour_vouches_for_a_node_that_answers_at_both_addresses_alone(auth, monkeypatch, answering):
    """A node whose own overlay is broken while its host answers would be vouched for by all, and no relay helps it."""
    port = _free_port()

    async def scenario():
        async with _serving(monkeypatch, _desk("e2", auth, port), (_desk("w1", auth, port), answering)):
            for _ in range(20):  # a busy machine answers too late now and then
                found = await _desk("e1", auth, port).ask(_question(Way.VOUCHED, relay="e2"), FAR, RELAY, 1500)
                if found is not None:
                    return found.is_reached
            return None

    assert asyncio.run(scenario()) is False


def test_silence_is_no_answer_and_neither_is_a_relay_that_is_not_known(auth):
    """Without any desk at the other end."""
    port = _free_port()
    desk = _desk("e1", auth, port)
    assert asyncio.run(desk.ask(_question(Way.DIRECT), FAR, None, 1500)) is None
    assert asyncio.run(desk.ask(_question(Way.VOUCHED, relay="e9"), FAR, None, 1500)) is None
    strange = FarNode(name="w9", address="127.0.2.9", overlay="127.1.2.9")
    assert asyncio.run(desk.ask(_question(Way.DIRECT), strange, None, 1500)) is None


def _signed(target="w1", kind=WayKind.ASK, nonce=1):
    """A question of e1's to w1."""
    keys = MeshKeys("e1", (MeshSecret(secret=SECRET),), Purpose.WAYS)
    keys.admit("w1")
    content = WayContent(sender=NodeName("e1"), target=NodeName(target), about=NodeName("e2"))
    return encode(WayMessage(kind=kind, nonce=nonce, content=content), keys.sending("w1"))


def test_questions_for_others_answers_and_too_many_of_them_are_passed_over(auth):
    """Signed and for this node, so many a second."""
    desk = _desk("w1", auth, 18_618)
    assert desk.read(_signed()) is not None
    assert desk.read(_signed("e2")) is None
    assert desk.read(b"noise" * 20) is None
    datagram = _signed()
    answered = [desk.read(datagram) is not None for _ in range(3 * way_desk.SIGNED_PER_S)]
    assert answered.count(True) <= 2 * way_desk.SIGNED_PER_S


def test_a_question_that_has_others_asked_is_taken_once_and_so_many_are(auth):
    """Somebody who has heard one sends it again and again."""
    desk = _desk("w1", auth, 18_618)

    datagrams = {nonce: _signed(kind=WayKind.VOUCH, nonce=nonce) for nonce in range(1, 4 * way_desk.VOUCHED_PER_S)}

    def is_taken(nonce):
        found = desk.read(datagrams[nonce])
        return found is not None and desk._is_new(found[0])

    replayed = [is_taken(1) for _ in range(40)]
    assert [True] == [each for each in replayed if each]
    taken = [is_taken(nonce) for nonce in range(2, 4 * way_desk.VOUCHED_PER_S)]
    assert way_desk.VOUCHED_PER_S - 1 <= taken.count(True) <= 2 * way_desk.VOUCHED_PER_S


def test_a_replayed_question_has_the_node_asked_once(auth, monkeypatch):
    """By the port: ten copies of one datagram, one answer."""
    port, asked = _free_port(), list[str]()

    async def scenario():
        desk = _desk("w1", auth, port)

        async def vouch(_opened, _asked, message, _pair):
            asked.append(message.content.about)

        desk._vouch = vouch
        async with _serving(monkeypatch, desk):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as replaying:
                for _ in range(10):
                    replaying.sendto(_signed(kind=WayKind.VOUCH), (ADDRESSES["w1"], direct_port(port)))
            await asyncio.sleep(0.1)

    asyncio.run(scenario())
    assert ["e2"] == asked


def test_without_keys_nothing_is_answered(auth, tmp_path):
    """However well it is signed; and nothing is asked."""
    desk = _desk("w1", AuthSettings(key_file=str(tmp_path / "none")), 18_618)
    assert _desk("w1", auth, 18_618).read(_signed()) is not None
    assert desk.read(_signed()) is None
    assert asyncio.run(desk.ask(_question(Way.DIRECT), FAR, None, 1500)) is None


def test_a_port_that_is_taken_is_logged_and_tried_again(auth, monkeypatch):
    """The rest of the agent goes on."""
    monkeypatch.setattr(way_desk, "RETRY_S", 0.01)
    port, log = _free_port(), Warnings()

    async def scenario():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("", direct_port(port)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.1):
                    await _desk("w1", auth, port, log=log).serve()

    asyncio.run(scenario())
    assert len(log.lines) > 1
    assert {"ways.unheard"} == set(log.lines)
    assert relayed_port(port) == direct_port(port) + 1
