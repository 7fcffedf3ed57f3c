"""WireGuard of a real kernel by generic netlink: what is set is what is read, and what `wg` shows."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
from contextlib import closing
from functools import partial

import pytest

from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.adapters.wireguard import genl
from meshwatchd.adapters.wireguard.identity import public_key
from meshwatchd.adapters.wireguard.state import LinkConfig
from meshwatchd.model.errors import KernelError
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

HANDSHAKE_S = 20
"""Guests are slower than the host."""

KEYS = [base64.b64encode(bytes([number]) * 31 + b"\x40").decode() for number in (8, 16, 24)]
CONFIG = LinkConfig(
    private_key=KEYS[0],
    listen_port=51830,
    peer_public_key=public_key(KEYS[1]),
    endpoint=("10.9.0.2", 51830),
    allowed_ips=("10.244.1.0/24", "192.168.100.11/32"),
    keepalive_s=1,
    mtu_bytes=1420,
)
OTHER_END = dataclasses.replace(
    CONFIG,
    private_key=KEYS[1],
    peer_public_key=public_key(KEYS[0]),
    endpoint=("10.9.0.1", 51830),
    allowed_ips=("10.244.4.0/24",),
)


async def _make(config):
    """A device that is up and configured; what it says of itself."""
    with closing(Kernel(117)) as kernel:
        await kernel.add_wireguard("mw0")
        link = await kernel.find_link("mw0")
        assert link is not None
        state = await _change(config)
        await kernel.bring_up(link, config.mtu_bytes)
    return state


async def _change(config):
    await genl.configure("mw0", config, await genl.read("mw0"))
    return await genl.read("mw0")


def test_a_device_says_what_it_was_told(tmp_path):
    """Keys, port, endpoint, prefixes, keepalive: read back, and the same for wg(8)."""
    with nodes(tmp_path, "b2") as (node,):
        state = node.do(lambda: _make(CONFIG))
        assert CONFIG.is_in_effect(state)
        assert public_key(KEYS[0]) == state.public_key
        assert ("10.9.0.2:51830", 0) == (state.peers[0].endpoint, state.peers[0].last_handshake_ns)

        shown = node.run("wg", "show", "mw0", "dump").splitlines()
        assert [KEYS[0], public_key(KEYS[0]), "51830"] == shown[0].split("\t")[:3]
        peer = shown[1].split("\t")
        assert [public_key(KEYS[1]), "10.9.0.2:51830", "1"] == [peer[0], peer[2], peer[7]]
        assert set(CONFIG.allowed_ips) == set(peer[3].split(","))


def test_another_peer_takes_the_place_of_the_one_before(tmp_path):
    """As when a standby link leads to another relay: one peer, with its prefixes, and the port as it was."""
    with nodes(tmp_path, "b2") as (node,):
        node.do(lambda: _make(CONFIG))
        other = dataclasses.replace(CONFIG, peer_public_key=public_key(KEYS[2]), allowed_ips=("10.244.9.0/24",))
        state = node.do(lambda: _change(other))

        assert other.is_in_effect(state)
        assert [public_key(KEYS[2])] == [peer.public_key for peer in state.peers]


def test_a_handshake_and_bytes_are_counted(tmp_path):
    """Two kernels shake hands by keepalive; a change of prefixes leaves the session as it is."""

    async def shaken():
        async with asyncio.timeout(HANDSHAKE_S):
            while not (state := await genl.read("mw0")).peers[0].last_handshake_ns:  # noqa: ASYNC110
                await asyncio.sleep(0.1)  # nothing announces it
        return state

    with nodes(tmp_path, "b2", "a1") as (one, other):
        one.do(lambda: _make(CONFIG))
        other.do(lambda: _make(OTHER_END))
        before = one.do(shaken)
        assert before.peers[0].rx_bytes > 0 < before.peers[0].tx_bytes
        wider = dataclasses.replace(CONFIG, allowed_ips=(*CONFIG.allowed_ips, "10.244.2.0/24"))
        after = one.do(lambda: _change(wider))

        assert wider.is_in_effect(after)
        assert before.peers[0].last_handshake_ns <= after.peers[0].last_handshake_ns
        assert after.peers[0].rx_bytes >= before.peers[0].rx_bytes


def test_a_peer_with_more_prefixes_than_a_message_holds_is_one_peer(tmp_path):
    """The kernel splits it over several messages; nothing is lost and nobody is counted twice."""
    many = tuple(f"10.{high}.{low}.0/24" for high in range(8) for low in range(250))
    with nodes(tmp_path, "b2") as (node,):
        node.do(lambda: _make(CONFIG))
        peer = public_key(KEYS[1])
        for start in range(0, len(many), 200):
            listed = ",".join((*CONFIG.allowed_ips, *many[: start + 200]))
            node.run("wg", "set", "mw0", "peer", peer, "allowed-ips", listed)
        state = node.do(lambda: genl.read("mw0"))

        assert [peer] == [each.public_key for each in state.peers]
        assert {*CONFIG.allowed_ips, *many} == set(state.peers[0].allowed_ips)


def test_a_device_that_is_none_of_wireguard_is_refused(tmp_path):
    """And so is one that does not exist."""
    with nodes(tmp_path, "b2") as (node,):
        node.do(lambda: _make(CONFIG))
        for device in ("lo", "nothing"):
            with pytest.raises(KernelError):
                node.do(partial(genl.read, device))
