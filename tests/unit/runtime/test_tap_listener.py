"""The socket of the tap desk, its keys, and the taps it opens on a real kernel."""

from __future__ import annotations

import asyncio
import base64
import socket

import msgspec
import pytest

from meshwatchd.model.errors import KernelError
from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.model.port_map import TAP_OFFSET
from meshwatchd.model.settings import AuthSettings
from meshwatchd.runtime import tap_listener
from meshwatchd.runtime.tap_listener import KEYS_S, KeyFiles, TapListener, open_taps
from meshwatchd.wire.auth import BOUND, node_id
from tests.support.lab_mesh import declared_mesh, settings_for


class Parrot:
    """A desk that says everything twice, but for what is short."""

    is_open = True

    def __init__(self) -> None:
        self.readings = 0
        self.is_closed = False

    def take(self, datagram: bytes) -> bytes | None:
        """Its answer."""
        return datagram * 2 if len(datagram) > 1 else None

    def read(self) -> None:
        """Count it."""
        self.readings += 1

    def close(self) -> None:
        """Remember it."""
        self.is_closed = True


class Warnings:
    """A log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def warning(self, event: str, **fields: object) -> None:
        """Keep it."""
        self.lines.append(event)


def _listener(desk, log: Warnings | None = None) -> tuple[TapListener, int]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = settings_for("b1")
    probe_settings = msgspec.structs.replace(settings.probe, port=port - TAP_OFFSET)
    settings = msgspec.structs.replace(settings, probe=probe_settings)
    return TapListener(settings, mesh=declared_mesh, log=log or Warnings(), desk=desk), port


async def _exchange(port: int, *datagrams: bytes) -> bytes:
    """Send some and return the first answer."""
    loop = asyncio.get_running_loop()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as asker:
        asker.connect(("127.0.0.1", port))
        while True:
            await asyncio.sleep(0.01)  # a refusal is read without waiting, and the listener needs its turn
            try:
                for datagram in datagrams:
                    asker.send(datagram)
                async with asyncio.timeout(0.2):
                    return await loop.sock_recv(asker, 4096)
            except (TimeoutError, ConnectionRefusedError):
                continue


def test_questions_are_answered_to_whoever_asked():
    """And the desk's taps are read and closed in the end."""
    desk = Parrot()
    listener, port = _listener(desk)

    async def scenario() -> bytes:
        async with asyncio.TaskGroup() as group:
            duty = group.create_task(listener.serve())
            answer = await _exchange(port, b"x", b"hello")
            duty.cancel()
            return answer

    assert b"hellohello" == asyncio.run(scenario())
    assert desk.is_closed


def test_a_port_that_is_taken_is_told_and_tried_again(monkeypatch):
    """Somebody else's program; when it ends, questions are heard."""
    monkeypatch.setattr(tap_listener, "RETRY_S", 0.01)
    log = Warnings()
    listener, port = _listener(Parrot(), log)

    async def scenario() -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("0.0.0.0", port))
            async with asyncio.TaskGroup() as group:
                duty = group.create_task(listener.serve())
                await asyncio.sleep(0)
                assert ["taps.unheard"] == log.lines
                other.close()
                answer = await _exchange(port, b"hello")
                duty.cancel()
                return answer

    assert b"hellohello" == asyncio.run(scenario())


@pytest.fixture
def auth(tmp_path):
    """A key file, and a name for the one of a rotation."""
    file = tmp_path / "mesh.key"
    file.write_bytes(base64.b64encode(bytes(range(32))))
    file.chmod(0o600)
    return AuthSettings(key_file=str(file))


def test_a_pair_signs_with_its_own_key_as_soon_as_it_has_one(auth):
    """At once, not with the next look at the files; who is no node of the mesh stays a stranger."""
    files = KeyFiles("b1", auth, declared_mesh, clock=lambda: 0.0)
    before = files.read()
    assert before is not None
    files.bind([PairBinding(peer=NodeName(name), shared=b"\7" * 32, signs=True) for name in ("b3", "x9")])
    after = files.read()
    assert after is not None

    assert before.sending("b3").key_id ^ BOUND == after.sending("b3").key_id
    assert before.sending("b2").key_id == after.sending("b2").key_id
    assert after.receiving(node_id("x9"), after.signing_id) is None


def test_keys_are_read_again_after_a_while(auth, tmp_path):
    """A rotation is followed, a file that is gone is no crash, and a flood costs no reading."""
    now_s = [0.0]
    files = KeyFiles("b1", auth, declared_mesh, clock=lambda: now_s[0])
    first = files.read()
    assert first is not None
    (tmp_path / "mesh.key").unlink()

    assert first is files.read()
    now_s[0] = KEYS_S
    assert files.read() is None


def test_taps_that_may_not_be_opened_are_an_error_of_ours(monkeypatch):
    """Of whatever kind: the desk then promises nothing."""

    def refuse():
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(tap_listener, "Kernel", refuse)
    with pytest.raises(KernelError, match="not permitted"):
        open_taps(declared_mesh().node[0], 1, "flannel.1", 18618)
