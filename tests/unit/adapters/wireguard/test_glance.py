"""What the engine reads of a WireGuard device, from the kernel and from a process, and what it does not wait for."""

from __future__ import annotations

import base64
import socket
import struct
from contextlib import closing

import pytest
from pyroute2.netlink.generic.wireguard import wgmsg

from meshwatchd.adapters.netlink.message import HEADER, encode, encode_attribute
from meshwatchd.adapters.poller import Poller
from meshwatchd.adapters.wireguard.glance import MAX_PIECES, PIECE_BYTES, Glance, decode, parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.snapshot import WireGuardPeer
from tests.support.listener_user import SOMEBODY_ELSE, pretend_listener
from tests.support.pump import pump

KEY, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (3, 4))
FAMILY = 33
DONE, ERROR, CONTROL = 3, 2, 16


def _message(*peers):
    """A message of a dump as pyroute2 encodes it, without struct nlmsghdr."""
    encoded = wgmsg()
    encoded["attrs"] = [("WGDEVICE_A_IFNAME", "kilo0"), ("WGDEVICE_A_PEERS", [{"attrs": list(peer)} for peer in peers])]
    encoded.encode()
    return bytes(encoded.data[16:])


def _peer(key, received=0):
    return [["WGPEER_A_PUBLIC_KEY", key], ["WGPEER_A_RX_BYTES", received], ["WGPEER_A_TX_BYTES", 148]]


class Desk:
    """Somebody who looks, with a kernel and processes that are played."""

    def __init__(self, directory):
        self.poller = Poller()
        self.seen: list[object] = []
        self.opened, self.kernel, self._kernels = 0, [], []
        self.glance = Glance(
            poller=self.poller,
            take=lambda device, peers: self.seen.append((device, peers)),
            sockets=directory,
            generic=self._open,
        )

    def _open(self):
        self.opened += 1
        ours, kernel = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        for datagram in self.kernel:
            kernel.send(datagram)
        self._kernels.append(kernel)
        return ours

    def close(self):
        """Wait for nobody."""
        self.glance.close()
        self.poller.close()
        for each in self._kernels:
            each.close()


@pytest.fixture
def desk(tmp_path):
    """One, closed at the end."""
    with closing(Desk(tmp_path)) as made:
        yield made


def _family():
    found = encode_attribute(1, struct.pack("=H", FAMILY)) + encode_attribute(2, b"wireguard\0")
    return encode(CONTROL, 0, 1, struct.pack("=BB2x", 1, 2) + found)


def test_a_device_of_the_kernel_is_read_at_once(desk):
    """The answer waits in the socket; a peer whose prefixes take two messages is one."""
    desk.kernel = [_family(), encode(FAMILY, 2, 1, _message(_peer(KEY, 92), _peer(OTHER))), encode(FAMILY, 2, 1, b"")]
    desk.kernel[2] = encode(FAMILY, 2, 1, _message([["WGPEER_A_PUBLIC_KEY", OTHER]])) + encode(DONE, 2, 1, bytes(4))
    desk.glance.ask("kilo0")
    peers = (
        WireGuardPeer(public_key=bytes([3] * 32).hex(), rx_bytes=92, tx_bytes=148),
        WireGuardPeer(public_key=bytes([4] * 32).hex(), rx_bytes=0, tx_bytes=148),
    )
    assert [("kilo0", peers)] == desk.seen

    desk.kernel = [encode(FAMILY, 2, 1, _message()) + encode(DONE, 2, 1, bytes(4))]
    desk.glance.ask("kilo0")
    assert ("kilo0", ()) == desk.seen[1], "the family is known, and the peers have gone"


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [encode(ERROR, 0, 1, struct.pack("=i", -2))],
        [_family(), encode(ERROR, 0, 1, struct.pack("=i", -19))],
        [_family(), b"\xff" * 40],
        [_family(), encode(FAMILY, 2, 1, _message(_peer(KEY))[:-3])],
    ],
    ids=["nothing", "no module", "no device", "noise", "cut short"],
)
def test_what_is_no_answer_tells_nothing(desk, answer):
    """Nobody is said to have lost peers on the word of an error."""
    desk.kernel = answer
    desk.glance.ask("kilo0")
    assert [] == desk.seen
    assert not desk.glance.too_large


def test_a_module_that_was_loaded_anew_is_looked_up_anew(desk):
    """Its family has another number; one look is lost."""
    whole = encode(FAMILY, 2, 1, _message(_peer(KEY))) + encode(DONE, 2, 1, bytes(4))
    for answers in ([_family(), whole], [encode(ERROR, 0, 1, struct.pack("=i", -2))], [_family(), whole]):
        desk.kernel = answers
        desk.glance.ask("kilo0")

    assert 2 == len(desk.seen)
    assert [CONTROL, FAMILY, CONTROL] == [HEADER.unpack_from(each.recv(100))[1] for each in desk._kernels]


def test_a_dump_that_does_not_end_is_left_to_the_agent(desk):
    """It is broken off, and not begun again."""
    desk.kernel = [_family(), *[encode(FAMILY, 2, 1, _message(_peer(KEY)))] * (MAX_PIECES + 1)]
    desk.glance.ask("kilo0")
    desk.glance.ask("kilo0")
    assert ([], 1, {"kilo0"}) == (desk.seen, desk.opened, desk.glance.too_large)


@pytest.fixture
def process(desk, tmp_path):
    """A process that serves kilo0: a listening socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(tmp_path / "kilo0.sock"))
        listening.listen(1)
        listening.settimeout(10)
        yield listening


REPLY = (
    f"private_key={'0' * 64}\nlisten_port=51820\npublic_key={'03' * 32}\nlast_handshake_time_sec=5\n"
    f"last_handshake_time_nsec=7\ntx_bytes=148\nrx_bytes=92\nallowed_ip=10.0.0.0/8\nerrno=0\n\n"
)


def test_a_process_answers_when_it_is_run(desk, process):
    """In pieces, while the loop does other things."""
    desk.glance.ask("kilo0")
    assert desk.glance.is_waiting
    served, _ = process.accept()
    with served:
        assert b"get=1\n\n" == served.recv(100)
        served.send(REPLY[:60].encode())
        pump(desk.poller, lambda: len(desk.glance._answer) == 60)
        assert [] == desk.seen
        served.send(REPLY[60:].encode())
        pump(desk.poller, lambda: bool(desk.seen))
    expected = (WireGuardPeer(public_key=bytes([3] * 32).hex(), handshake_ns=5 * 10**9 + 7, rx_bytes=92, tx_bytes=148),)
    assert [("kilo0", expected)] == desk.seen
    assert not desk.glance.is_waiting
    assert 0 == desk.opened, "the kernel was not asked"


def test_a_process_of_another_user_is_told_nothing(desk, process, monkeypatch):
    """Whoever may write to the folder may listen there, and would say who lives."""
    pretend_listener(monkeypatch, SOMEBODY_ELSE)
    desk.glance.ask("kilo0")
    served, _ = process.accept()
    with served:
        assert b"" == served.recv(100)
    assert not desk.glance.is_waiting


@pytest.mark.parametrize("reply", [b"", b"errno=1\n\n", b"public_key=xy\n\n", b"public_key=03\nrx_bytes=many\n\n"])
def test_a_process_that_says_nothing_sensible_tells_nothing(desk, process, reply):
    """It ends, reports an error, or is not understood; the next question is possible."""
    desk.glance.ask("kilo0")
    served, _ = process.accept()
    with served:
        served.send(reply)
    pump(desk.poller, lambda: not desk.glance.is_waiting)
    assert [] == desk.seen


def test_an_answer_without_end_is_left_to_the_agent(desk, process):
    """So is a process that nobody serves any more: its socket refuses."""
    desk.glance.ask("kilo0")
    served, _ = process.accept()
    with served:
        served.settimeout(10)
        sent = 0
        while "kilo0" not in desk.glance.too_large:
            assert sent < 2 * MAX_PIECES * PIECE_BYTES
            sent += served.send(b"allowed_ip=10.0.0.0/8\n" * 300)
            pump(desk.poller, lambda: True)
            desk.poller.dispatch(desk.poller.wait())
    assert [] == desk.seen
    process.close()
    desk.glance.too_large.clear()
    desk.glance.ask("kilo0")
    assert not desk.glance.is_waiting


def test_figures_that_are_none_are_refused():
    """Both readings raise what their callers expect."""
    with pytest.raises(DecodeError, match="errno"):
        parse("errno=-1\n\n")
    with pytest.raises(DecodeError):
        decode([_message(_peer(KEY))[:-6]])
