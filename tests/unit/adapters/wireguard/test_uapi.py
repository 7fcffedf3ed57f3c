import asyncio
import base64
import contextlib

import msgspec
import pytest

from meshwatchd.adapters.wireguard import uapi
from meshwatchd.adapters.wireguard.identity import clamp, public_key
from meshwatchd.adapters.wireguard.state import LinkConfig
from meshwatchd.model.errors import DecodeError, KernelError
from tests.support.listener_user import SOMEBODY_ELSE, pretend_listener

KEY = clamp(b"\x07" * 32)
PEER = b"\x21" * 32
OTHER = b"\x42" * 32
REPLY = f"""\
private_key={KEY.hex()}
listen_port=51830
public_key={PEER.hex()}
endpoint=203.0.113.11:51830
persistent_keepalive_interval=10
last_handshake_time_sec=1700000000
last_handshake_time_nsec=5
rx_bytes=92
tx_bytes=148
allowed_ip=10.244.1.0/24
allowed_ip=192.168.100.11/32
protocol_version=1
public_key={OTHER.hex()}
errno=0

"""


def text(key):
    """A key as `wg` writes it."""
    return base64.b64encode(key).decode()


CONFIG = LinkConfig(
    private_key=text(KEY),
    listen_port=51830,
    peer_public_key=text(PEER),
    endpoint=("203.0.113.11", 51830),
    allowed_ips=("10.244.1.0/24",),
    keepalive_s=10,
    mtu_bytes=1420,
)


def test_a_reply_is_read_peer_by_peer():
    """`public_key` begins a peer; `errno` at the end belongs to nobody."""
    state = uapi.parse(REPLY)

    assert (text(KEY), public_key(text(KEY)), 51830) == (state.private_key, state.public_key, state.listen_port)
    first, second = state.peers
    assert ("203.0.113.11:51830", ("10.244.1.0/24", "192.168.100.11/32"), 10) == (
        first.endpoint,
        first.allowed_ips,
        first.keepalive_s,
    )
    assert (1_700_000_000_000_000_005, 92, 148) == (first.last_handshake_ns, first.rx_bytes, first.tx_bytes)
    assert (text(OTHER), None, (), 0) == (
        second.public_key,
        second.endpoint,
        second.allowed_ips,
        second.last_handshake_ns,
    )


def test_a_device_without_a_key_has_none():
    """Before the first configuration the key is all zeros or absent."""
    for reply in ("errno=0\n\n", f"private_key={'0' * 64}\nerrno=0\n\n"):
        assert ("", "", 0, ()) == (
            (state := uapi.parse(reply)).private_key,
            state.public_key,
            state.listen_port,
            state.peers,
        )


@pytest.mark.parametrize("reply", ["listen_port\n", "listen_port=many\n", "private_key=xyz\n"])
def test_a_reply_that_makes_no_sense_is_refused(reply):
    """Never guess what a device meant."""
    with pytest.raises(DecodeError, match="uapi"):
        uapi.parse(reply)


def test_only_differences_are_asked_for():
    """A port that is set anew opens its socket anew, and a replaced peer starts a new session."""
    request = uapi.render(CONFIG, uapi.parse(REPLY))

    assert "private_key" not in request
    assert "listen_port" not in request
    assert "replace_peers" not in request
    assert f"public_key={OTHER.hex()}\nremove=true\n" in request
    assert f"public_key={PEER.hex()}\nendpoint=203.0.113.11:51830\n" in request
    assert "replace_allowed_ips=true\nallowed_ip=10.244.1.0/24\n\n" in request


def test_a_new_device_is_told_everything():
    """Key and port come before the peer."""
    request = uapi.render(CONFIG, uapi.parse("errno=0\n\n"))

    assert request.startswith(f"set=1\nprivate_key={KEY.hex()}\nlisten_port=51830\npublic_key=")


async def serve(directory, reply):
    """Answer one request on a device's socket as an implementation would; returns what was asked."""
    asked = []

    async def answer(reader, writer):
        asked.append(await reader.readuntil(b"\n\n"))
        writer.write(reply.encode())
        writer.close()

    server = await asyncio.start_unix_server(answer, directory / "mw0.sock")
    return server, asked


def test_a_device_is_asked_over_its_socket(tmp_path, monkeypatch):
    """One connection a request, as the protocol wants."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)

    async def scenario():
        server, asked = await serve(tmp_path, REPLY)
        async with server:
            return await uapi.read("mw0"), asked

    state, asked = asyncio.run(scenario())

    assert uapi.parse(REPLY) == state
    assert [b"get=1\n\n"] == asked


@pytest.mark.parametrize("ask", [uapi.read, lambda device: uapi.configure(device, CONFIG, uapi.parse("errno=0\n\n"))])
def test_what_another_user_serves_is_told_nothing(tmp_path, monkeypatch, ask):
    """Whoever may write to the folder may listen there; a request to configure holds the private key."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)
    pretend_listener(monkeypatch, SOMEBODY_ELSE)

    async def scenario():
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def answer(reader, writer):
            heard.put_nowait(await reader.read())
            writer.close()

        async with await asyncio.start_unix_server(answer, tmp_path / "mw0.sock"):
            with pytest.raises(KernelError, match=rf"mw0.sock: it belongs to user {SOMEBODY_ELSE}"):
                await ask("mw0")
            return await heard.get()

    assert b"" == asyncio.run(scenario())


def test_a_device_of_hundreds_of_peers_is_read_whole(tmp_path, monkeypatch):
    """A hub has them all, and asyncio reads 64 KiB unless it is asked for more."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)
    [before, peer] = REPLY.split(f"public_key={PEER.hex()}\n")
    peer = peer.split("protocol_version", maxsplit=1)[0]
    peers = "".join(f"public_key={number:064x}\n{peer}" for number in range(1, 401))

    async def scenario():
        server, _ = await serve(tmp_path, f"{before}{peers}errno=0\n\n")
        async with server:
            return await uapi.read("mw0")

    assert len(peers) > 1 << 16
    assert 400 == len(asyncio.run(scenario()).peers)


def test_an_answer_without_end_is_an_error(tmp_path, monkeypatch):
    """Whatever listens there, it is no WireGuard."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)

    async def scenario():
        server, _ = await serve(tmp_path, "allowed_ip=10.0.0.0/8\n" * (1 << 19))
        async with server:
            await uapi.read("mw0")

    with pytest.raises(KernelError, match="answers with more than 8388608 bytes"):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("reply", "problem"),
    [("errno=-22\n\n", "Invalid argument"), ("errno=22\n\n", "Invalid argument"), ("", "before its answer")],
)
def test_a_refusal_is_an_error_with_its_reason(tmp_path, monkeypatch, reply, problem):
    """Implementations disagree on the sign of error numbers."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)

    async def scenario():
        server, _ = await serve(tmp_path, reply)
        async with server:
            await uapi.configure("mw0", CONFIG, uapi.parse("errno=0\n\n"))

    with pytest.raises(KernelError, match=f"configure mw0: .*{problem}"):
        asyncio.run(scenario())


def test_a_device_that_nobody_serves_is_an_error(tmp_path, monkeypatch):
    """The process behind it has died, or it is not a WireGuard device at all."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)

    with pytest.raises(KernelError, match=r"read mw0: .*mw0.sock: No such file"):
        asyncio.run(uapi.read("mw0"))


@pytest.mark.parametrize(
    "reply",
    [
        "private_key=" + "z" * 64,
        "private_key=0",
        "listen_port=",
        "public_key=" + "0" * 63,
        "errno=x",
        "public_key=\nrx_bytes=" + "9" * 400,
        "private_key=ab",
        "listen_port=" + "9" * 5000,
    ],
)
def test_any_reply_is_a_state_or_refused(reply):
    """Nothing else comes out, and no number that no frame can carry."""
    with contextlib.suppress(DecodeError):
        msgspec.msgpack.encode(uapi.parse(reply))
