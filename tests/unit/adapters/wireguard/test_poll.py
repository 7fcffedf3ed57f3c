import asyncio
import dataclasses
import errno

import pytest

from meshwatchd.adapters.wireguard import uapi
from meshwatchd.adapters.wireguard.poll import Poll, is_wireguard
from meshwatchd.adapters.wireguard.state import LinkState, PeerState
from meshwatchd.model.errors import KernelError
from meshwatchd.model.snapshot import Link

PEER = PeerState(
    public_key="key-of-b1",
    endpoint=None,
    allowed_ips=("10.3.0.0/24", "10.2.0.0/24"),
    keepalive_s=10,
    last_handshake_ns=1_000_000,
    rx_bytes=92,
    tx_bytes=148,
)


def link(name, kind="wireguard"):
    """A device."""
    return Link(name=name, index=7, kind=kind, is_up=True, mtu_bytes=1420)


class Devices:
    """What devices answer, and what time it is."""

    def __init__(self):
        self.now, self.wall = 5_000_000, 1_200_000
        self.answers = {"kilo0": LinkState(private_key="", public_key="key-of-a1", listen_port=51820, peers=(PEER,))}
        self.poll = Poll(self.read, clock=lambda: self.now, wall_clock=lambda: self.wall)

    async def read(self, asked):
        """Answer, or not."""
        if asked.name not in self.answers:
            raise KernelError(f"read {asked.name}", errno.ETIMEDOUT, "nothing answers")
        return self.answers[asked.name]

    def states(self, *links):
        """One look."""
        return asyncio.run(self.poll.states(links))


@pytest.fixture
def devices():
    """One device with one peer."""
    return Devices()


def test_an_answer_is_put_on_the_monotonic_clock(devices):
    """0.2 ms ago by the wall clock is 0.2 ms ago."""
    (state,) = devices.states(link("kilo0"), link("eth0", "veth"))
    (peer,) = state.peers

    assert ("kilo0", "key-of-a1", 51820, 5_000_000) == (state.device, state.public_key, state.listen_port, state.at_ns)
    assert ("", ("10.2.0.0/24", "10.3.0.0/24"), 4_800_000) == (peer.endpoint, peer.allowed_ips, peer.handshake_ns)


def test_peers_come_in_one_order_whatever_the_device_says(devices):
    """wireguard-go goes through a map: what is compared with an earlier look would never stand still."""
    others = tuple(dataclasses.replace(PEER, public_key=key) for key in ("key-of-c1", "key-of-a2"))
    seen = []
    for peers in ((PEER, *others), (*others, PEER)):
        devices.answers["kilo0"] = LinkState(private_key="", public_key="key-of-a1", listen_port=51820, peers=peers)
        seen.append(devices.states(link("kilo0")))

    assert seen[0] == seen[1]
    assert ["key-of-a2", "key-of-b1", "key-of-c1"] == [peer.public_key for peer in seen[0][0].peers]


def test_a_step_of_the_wall_clock_moves_no_handshake(devices):
    """The instant is found once for each handshake."""
    devices.states(link("kilo0"))
    devices.wall += 3600 * 10**9

    assert 4_800_000 == devices.states(link("kilo0"))[0].peers[0].handshake_ns


def test_a_handshake_is_where_it_was_when_a_device_answers_again(devices):
    """Its instant is not computed anew, by a wall clock that was stepped while the device gave no answer."""
    devices.states(link("kilo0"))
    mute = devices.answers.copy()
    devices.answers.clear()
    assert () == devices.states(link("kilo0"))
    devices.answers.update(mute)
    devices.wall += 3600 * 10**9

    assert 4_800_000 == devices.states(link("kilo0"))[0].peers[0].handshake_ns


def test_a_handshake_in_the_future_is_one_of_this_moment(devices):
    """The wall clock was set back since; and long before the clock began is its beginning."""
    devices.wall = 0
    assert devices.now == devices.states(link("kilo0"))[0].peers[0].handshake_ns
    later = Devices()
    later.wall = 10**18
    assert 1 == later.states(link("kilo0"))[0].peers[0].handshake_ns


def test_a_device_without_an_answer_is_left_out_and_named(devices):
    """The others are told all the same."""
    found = devices.states(link("wg9"), link("kilo0"))

    assert ["kilo0"] == [state.device for state in found]
    assert ["wg9"] == list(devices.poll.problems)
    devices.states(link("kilo0"))
    assert {} == devices.poll.problems


def test_a_tun_device_is_wireguards_if_somebody_listens_for_it(tmp_path, monkeypatch):
    """OpenVPN has tun devices, too."""
    monkeypatch.setattr(uapi, "SOCKET_DIRECTORY", tmp_path)
    (tmp_path / "wg0.sock").touch()

    assert is_wireguard(link("wg0", "tun"))
    assert not is_wireguard(link("tun0", "tun"))
    assert not is_wireguard(link("wg0", "vxlan"))
