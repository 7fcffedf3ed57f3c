"""How long Kilo's own work excuses silence, where, and that it ends."""

from __future__ import annotations

import msgspec

from meshwatchd.core.failover.topology_change_hold import (
    CALM_NS,
    CHANGE_NS,
    HEARSAY_NS,
    HERE,
    MAX_NS,
    NEARBY,
    REST_NS,
    TRANSIENT_NS,
    Unrest,
    exchanged,
    rewritten,
)
from meshwatchd.model.events import Banner, MeshStirred
from meshwatchd.model.settings import MS, SECOND, MeshSettings
from meshwatchd.model.snapshot import DeviceRoute, Link, Snapshot, WireGuardPeer, WireGuardState

NOW = 100 * SECOND
MESH = MeshSettings()
KILO0 = Link(name="kilo0", index=5, kind="wireguard", is_up=True, mtu_bytes=1420)
ROUTE = DeviceRoute(dst="10.244.4.0/24", dev="flannel.1", table=254, protocol=4, via="10.244.1.0")


def _peers(*keys):
    peers = tuple(WireGuardPeer(public_key=key) for key in keys)
    return (WireGuardState(device="kilo0", public_key="own", listen_port=1, at_ns=1, peers=peers),)


BEFORE = Snapshot(links=(KILO0,), device_routes=(ROUTE,), wireguard=_peers("b1"))


def test_a_device_that_goes_is_waited_for_shortly_and_one_that_comes_for_longer():
    """Whoever heard it is told once."""
    unrest = Unrest()
    assert unrest.stirred(NOW, is_rebuilding=False)
    assert not unrest.stirred(NOW + MS, is_rebuilding=False)
    assert unrest.is_on("cloud", NOW + TRANSIENT_NS)
    assert not unrest.is_on("cloud", NOW + TRANSIENT_NS + MS)
    unrest.stirred(NOW + 200 * MS, is_rebuilding=True)

    assert unrest.is_on("cloud", NOW + 200 * MS + CHANGE_NS - 1)
    assert not unrest.is_on("cloud", NOW + 200 * MS + CHANGE_NS)
    assert (HERE, 0) == (unrest.bits(NOW + SECOND), unrest.bits(NOW + MAX_NS))


def test_who_rewrites_for_ever_is_broken():
    """Patience ends, and only calm gives it back."""
    unrest = Unrest()
    for at in range(0, 30, 1):
        unrest.stirred(NOW + at * SECOND, is_rebuilding=True)
    assert not unrest.is_on("cloud", NOW + MAX_NS)
    assert not unrest.is_on("cloud", NOW + 29 * SECOND + MS)

    later = NOW + 29 * SECOND + CALM_NS
    assert unrest.stirred(later, is_rebuilding=True)
    assert unrest.is_on("cloud", later)


def test_patience_grows_with_calm_and_not_while_there_is_none():
    """An agent that ends and one that starts six seconds later have each what they need; what is spent comes back."""
    unrest = Unrest()
    unrest.stirred(NOW, is_rebuilding=True)
    unrest.stirred(NOW + 2 * SECOND, is_rebuilding=True)
    again = NOW + 6 * SECOND
    assert not unrest.is_on("cloud", again)
    assert unrest.stirred(again, is_rebuilding=True)
    assert unrest.is_on("cloud", again + CHANGE_NS - 1)

    restless = Unrest()
    for at in range(NOW, NOW + 10 * SECOND, REST_NS - MS):
        restless.stirred(at, is_rebuilding=True)
    assert not restless.is_on("cloud", at)
    part = at + REST_NS
    assert restless.stirred(part, is_rebuilding=True)
    assert restless.is_on("cloud", part + REST_NS * MAX_NS // CALM_NS - 1)
    assert not restless.is_on("cloud", part + REST_NS * MAX_NS // CALM_NS)


def test_a_peer_s_word_counts_for_its_location_and_not_for_ever():
    """A neighbour's for all pairs, and it is passed on; a far node's for the pair with it; hearsay of it ends here."""
    unrest = Unrest()
    here, nearby = Banner(view_up=HERE, view_known=HERE), Banner(view_up=NEARBY, view_known=NEARBY)
    assert not unrest.heard("b2", nearby, NOW, location="cloud", home="onprem")
    assert (True, False) == (unrest.is_on("cloud", NOW), unrest.is_on("edge", NOW))
    assert 0 == unrest.bits(NOW)
    assert not unrest.heard("a2", nearby, NOW, location="onprem", home="onprem")
    assert unrest.heard("a1", here, NOW, location="onprem", home="onprem")
    assert unrest.is_on("edge", NOW)
    assert NEARBY == unrest.bits(NOW)

    assert not unrest.is_on("cloud", NOW + HEARSAY_NS)
    assert 0 == unrest.bits(NOW + HEARSAY_NS)
    unrest.unsaid("a1")
    assert not unrest.is_on("edge", NOW), "taken back at once by who said it"
    unrest.unsaid("b3")
    assert unrest.is_on("cloud", NOW), "and by nobody else"


def test_who_knows_of_work_on_its_own_node_passes_on_no_neighbour_s_word():
    """The neighbour has told everybody itself, and so has this node: thirty probes would say nothing."""
    unrest, word = Unrest(), Banner(view_up=HERE, view_known=HERE)
    unrest.stirred(NOW, is_rebuilding=False)

    assert not unrest.heard("a2", word, NOW, location="onprem", home="onprem")
    assert not unrest.is_told_by_others(NOW)
    unrest.heard("b1", word, NOW, location="cloud", home="onprem")
    assert unrest.is_told_by_others(NOW)
    assert not unrest.is_told_by_others(NOW + HEARSAY_NS)


def test_who_says_so_without_end_is_believed_for_as_long_as_an_agent_needs():
    """A stolen node would keep verdicts and the way home from the others for good; silence makes it honest again."""
    unrest, word = Unrest(), Banner(view_up=HERE, view_known=HERE)

    def speak(first, last):
        for at in range(first, last, 500 * MS):
            unrest.heard("a1", word, at, location="onprem", home="onprem")
            unrest.heard("b1", word, at, location="cloud", home="onprem")

    speak(NOW, NOW + MAX_NS)
    assert unrest.is_on("cloud", NOW + MAX_NS - 1)
    speak(NOW + MAX_NS, NOW + 60 * SECOND)
    assert not unrest.is_on("cloud", NOW + 60 * SECOND - 1)
    later = NOW + 60 * SECOND + CALM_NS
    speak(later, later + SECOND)
    assert unrest.is_on("cloud", later + SECOND)


def test_what_is_made_anew_is_rewriting_and_what_only_goes_is_not():
    """A device with another index, one that came up, another peer, another way; not a counter and not a loss."""

    def shows(**changes):
        return rewritten(BEFORE, msgspec.structs.replace(BEFORE, **changes), MESH)

    assert "made" in shows(links=(msgspec.structs.replace(KILO0, index=9),))
    assert "peers" in shows(wireguard=_peers("b2"))
    assert "another way" in shows(device_routes=(msgspec.structs.replace(ROUTE, via="10.244.2.0"),))
    assert "" == shows(links=(msgspec.structs.replace(KILO0, mtu_bytes=1400),))
    assert "" == shows(links=(msgspec.structs.replace(KILO0, is_up=False),))
    assert "" == shows(links=())
    assert "" == shows(device_routes=(), wireguard=())
    assert "" == shows(device_routes=(msgspec.structs.replace(ROUTE, via="10.244.2.0"),), is_bounded=True)
    assert "" == shows(device_routes=(msgspec.structs.replace(ROUTE, src="10.0.0.1"),))


def _device(*peers):
    return (WireGuardState(device="kilo0", public_key="own", listen_port=1, at_ns=1, peers=peers),)


def test_peers_that_go_come_or_are_made_anew_are_kilos_work():
    """A handshake, a roaming endpoint and bytes are not, nor is a device that was not known."""
    old = WireGuardPeer(public_key="b1", handshake_ns=NOW, rx_bytes=5)
    assert exchanged(_device(old), _device(msgspec.structs.replace(old, endpoint="e", rx_bytes=9))) is None
    assert exchanged((), _device(old)) is None
    assert exchanged(_device(old), ()) is None

    assert MeshStirred(what="kilo0 has lost peers", is_rebuilding=False) == exchanged(_device(old), _device())
    came = MeshStirred(what="kilo0 has other peers", is_rebuilding=True)
    assert came == exchanged(_device(), _device(old))
    assert came == exchanged(_device(old), _device(WireGuardPeer(public_key="b2")))
    assert came == exchanged(_device(old), _device(WireGuardPeer(public_key="b1"))), "its session is gone"
    again = msgspec.structs.replace(old, handshake_ns=NOW + SECOND, rx_bytes=4)
    assert came == exchanged(_device(old), _device(again)), "it has shaken hands since, and counts from nothing"
    sent = msgspec.structs.replace(old, tx_bytes=5)
    assert came == exchanged(_device(sent), _device(old))
