"""Black holes of large packets in the whole mesh: named by all who meet them, to the byte, and nothing else is."""

from __future__ import annotations

import random

import msgspec
import pytest

from meshwatchd.core.pmtu.rest_intervals import SEGMENT_NS
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.faults import Direction
from meshwatchd.model.ids import Layer
from meshwatchd.model.mtu import SizeMeasured
from meshwatchd.model.settings import MS, SECOND, Mode, Settings
from tests.sim import faults
from tests.sim.clones import made_once
from tests.sim.healthy import healthy_world
from tests.sim.world import World
from tests.support.lab_mesh import NAMES, snapshot_of, with_ipip

VERDICT_NS, EXACT_NS = 3 * SECOND, 10 * SECOND


def _sizes(world: World, name: str, layer: Layer) -> set[int]:
    return {
        session.both_bytes
        for session in world.nodes[name].engine.state.sizes.sessions
        if session.plan.layer is layer and not session.plan.may_fragment
    }


def _is_measured(world: World) -> bool:
    sessions = [session for node in world.nodes.values() for session in node.engine.state.sizes.sessions]
    return all(session.is_measured and not session.is_searching for session in sessions)


@made_once
def _watched(seed: int = 1, adjust=lambda settings: settings) -> World:
    """A world in which every path was measured once."""
    world = healthy_world(seed=seed, adjust=adjust)
    world.run(5 * SECOND)
    assert _is_measured(world)
    return world


@pytest.mark.parametrize("adjust", [lambda settings: settings, with_ipip], ids=["flannel", "ipip"])
def test_a_healthy_mesh_carries_what_its_devices_promise(adjust):
    """Each layer at its size, no verdict, no news."""
    world = _watched(adjust=adjust)

    assert {1500} == _sizes(world, "b3", Layer.UNDERLAY)
    assert {1450} == _sizes(world, "b3", Layer.OVERLAY)
    assert {1420} == _sizes(world, "b3", Layer.RELAY)
    assert {1420} == _sizes(world, "b1", Layer.WIREGUARD)
    assert set() == world.accusations()
    assert [] == world.facts(SizeMeasured)


@pytest.mark.parametrize("seed", range(2))
def test_a_black_hole_below_the_overlay_is_named_by_all_and_measured_to_the_byte(seed):
    """The leader's overlay passes 1337 bytes: every node says so within 3 s, and to the byte within 10."""
    world = _watched(seed)
    began = world.now
    world.faults.append(faults.size_limit("overlay", "b1", 1337))

    assert world.run_until(lambda: set(world.verdicts().values()) == {"mtu-black-hole@b1"}, limit_ns=VERDICT_NS), (
        world.story(since=began)
    )
    world.run(began + EXACT_NS - world.now)

    assert {1337} == {
        s.both_bytes for s in world.nodes["b2"].engine.state.sizes.sessions if _is(s, "b1", Layer.OVERLAY)
    }
    assert {1337} == _sizes(world, "a3", Layer.RELAY) - {1420}
    assert {("mtu-black-hole", "b1")} == world.accusations(since=began)
    assert any("MTU 1337" in sentence for sentence in _verdict(world, "b2").because)
    assert {Layer.OVERLAY} == {_verdict(world, name).layer for name in NAMES}
    assert {0} == set(world.active_ranks().values())

    world.faults.clear()
    assert world.run_until(lambda: set(world.verdicts().values()) == {"none"}, limit_ns=5 * SECOND), world.story()
    assert {1450} == _sizes(world, "b2", Layer.OVERLAY)


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_black_hole_is_named_as_soon_by_nodes_that_are_held_up(seed):
    """Each node sleeps for 40 to 90 ms, half of the time in all, as where processors are scarce.

    Of sixty seeds one takes a second longer: a node has slept through the answers about the node that it names last.
    """
    world, rng = _watched(), random.Random(seed)
    began, due = world.now, {name: world.now + rng.randrange(300) * MS for name in NAMES}
    world.faults.append(faults.size_limit("overlay", "b1", 1337))

    while set(world.verdicts().values()) != {"mtu-black-hole@b1"}:
        for name in (name for name in NAMES if due[name] <= world.now):
            slept_ns = rng.randrange(40, 90) * MS
            world.stall(name, slept_ns)
            due[name] = world.now + slept_ns + rng.randrange(40, 120) * MS
        world.run(5 * MS)
        assert world.now < began + VERDICT_NS, world.story(since=began)
    assert {("mtu-black-hole", "b1")} == world.accusations(since=began)


def _is(session, peer, layer):
    return session.plan.peer == peer and session.plan.layer is layer


def _verdict(world, name):
    return world.nodes[name].controller.verdicts.current


@pytest.mark.parametrize("seed", range(2))
def test_a_black_hole_in_one_direction_names_it(seed):
    """What leaves b1's overlay is cut, what comes to it is not: b1 says outbound, its neighbours inbound."""
    world = _watched(seed)
    world.faults.append(faults.size_limit("overlay", "b1", 1300, is_inbound=False))
    world.run(EXACT_NS)

    assert {Direction.INBOUND} == {_verdict(world, name).direction for name in ("b2", "b3")}
    assert Direction.OUTBOUND is _verdict(world, "b1").direction
    assert {"mtu-black-hole@b1"} == set(world.verdicts().values())
    (there,) = (s for s in world.nodes["b2"].engine.state.sizes.sessions if _is(s, "b1", Layer.OVERLAY))
    assert (1300, 1450) == (there.both_bytes, there.outbound_bytes)


def test_a_black_hole_in_both_directions_names_both():
    """The count tells the way there, the peer's own probes tell the way back."""
    world = _watched()
    world.faults.append(faults.size_limit("overlay", "b1", 1300))
    world.run(EXACT_NS)

    assert {Direction.BOTH} == {_verdict(world, name).direction for name in ("b1", "b2", "b3")}


def test_a_black_hole_between_the_relays_is_the_tunnels():
    """Leaders measure their tunnel; members infer it, for their own overlay is innocent."""
    world = _watched()
    world.faults.append(faults.size_limit("tunnel", "a1", 1380, to="b1"))
    world.run(EXACT_NS)

    words = {name: "mtu-black-hole@b1" if name[0] == "a" else "mtu-black-hole@a1" for name in NAMES}
    assert words == world.verdicts()
    assert {Layer.WIREGUARD} == {_verdict(world, name).layer for name in NAMES}
    assert {1380} == _sizes(world, "a1", Layer.WIREGUARD)


@pytest.mark.parametrize("seed", range(2))
def test_whoever_loses_large_packets_by_its_own_devices_says_so_before_it_is_blamed(seed):
    """b3's network device was made smaller than its overlay needs: its packets say so, and no hello is there to."""
    world = _watched(seed)
    began, b3 = world.now, world.nodes["b3"]
    world.faults += [faults.size_limit("underlay", "b3", 1400), faults.size_limit("overlay", "b3", 1350)]
    world._feed(b3, ev.SnapshotReceived(snapshot=_with_mtu("b3", "eth0", 1400)))
    world.run(EXACT_NS)

    assert {"mtu-misconfigured@b3"} == set(world.verdicts().values())
    assert {("mtu-misconfigured", "b3")} == world.accusations(since=began)

    healed = world.now
    world.faults.clear()
    world._feed(b3, ev.SnapshotReceived(snapshot=_with_mtu("b3", "eth0", 1500)))
    assert world.run_until(lambda: set(world.verdicts().values()) == {"none"}, limit_ns=5 * SECOND), world.story()
    assert {("mtu-misconfigured", "b3")} >= world.accusations(since=healed)
    assert not b3.engine.state.sizes.stack.misfits


def test_a_device_that_is_a_little_too_large_does_not_hide_what_is_worse():
    """b1 warns of its overlay device for long; then its network loses large packets, and it takes its word back."""
    world = _watched()
    b1 = world.nodes["b1"]
    world._feed(b1, ev.SnapshotReceived(snapshot=_with_mtu("b1", "flannel.1", 1470)))
    world.run(EXACT_NS)
    assert {"b1": "mtu-misconfigured@b1"} == {name: word for name, word in world.verdicts().items() if word != "none"}
    assert all(node.engine.state.findings.misfits for name, node in world.nodes.items() if name != "b1")

    world.faults.append(faults.size_limit("underlay", "b1", 1300))
    world.run(SEGMENT_NS + EXACT_NS)
    words = world.verdicts()
    assert {"mtu-black-hole@b1"} == {words[name] for name in ("b1", "b2", "b3")}
    assert not any(node.engine.state.findings.misfits for node in world.nodes.values())


def _with_mtu(name, device, mtu_bytes):
    snapshot = snapshot_of(name)
    links = (
        msgspec.structs.replace(link, mtu_bytes=mtu_bytes) if link.name == device else link for link in snapshot.links
    )
    return msgspec.structs.replace(snapshot, links=tuple(links))


def test_a_standby_that_carries_less_is_a_warning_of_its_own():
    """The path in use is fine, so nothing is lost; after a failover it would be."""
    world = _watched()
    world.faults.append(faults.size_limit("tunnel", "a1", 1300, to="b2"))
    world.run(SEGMENT_NS + EXACT_NS)

    assert "standby-mtu-smaller@b2" == world.verdict("a1")
    assert {("standby-mtu-smaller", "a1"), ("standby-mtu-smaller", "b2")} == world.accusations()


def test_the_exact_size_is_found_under_loss():
    """Two percent of packets are lost on every wire: the byte is the same, and nothing else is blamed for sizes."""
    world = _watched(2)
    world.faults.append(faults.random_loss(0.02))
    world.run(5 * SECOND)
    assert not {fault for fault, _ in world.accusations() if "mtu" in fault}
    world.faults.append(faults.size_limit("overlay", "b1", 1337))
    world.run(EXACT_NS)

    assert {1337} == {
        s.both_bytes for s in world.nodes["b2"].engine.state.sizes.sessions if _is(s, "b1", Layer.OVERLAY)
    }


def test_loss_alone_accuses_no_size():
    """Five percent each way on every wire for a while: no black hole is made up."""
    world = _watched(3)
    world.faults.append(faults.random_loss(0.05))
    world.run(15 * SECOND)

    assert not {fault for fault, _ in world.accusations() if "mtu" in fault or "fragments" in fault}


@pytest.mark.parametrize("name", ["overlay-black-hole", "leader-dead", "wireguard-blocked"])
def test_what_kills_small_packets_too_is_no_matter_of_size(name):
    """Other faults keep their names."""
    fault = {
        "overlay-black-hole": faults.overlay_black_hole("b1"),
        "leader-dead": faults.dead("b1"),
        "wireguard-blocked": faults.tunnel_blocked("a1", "b1"),
    }[name]
    world = _watched()
    world.faults.append(fault)
    world.run(6 * SECOND)

    assert not {fault for fault, _ in world.accusations() if "mtu" in fault or "fragments" in fault}


def test_dropped_fragments_are_a_warning():
    """Whole packets pass the underlay, two fragments do not."""
    world = _watched()
    world.faults.append(faults.size_limit("underlay", "b1", 1500))
    world.run(SEGMENT_NS + EXACT_NS)

    assert {"b1": "fragments-dropped@b1", "b2": "fragments-dropped@b1"} == {
        name: world.verdict(name) for name in ("b1", "b2")
    }
    assert {"none"} == {world.verdict(name) for name in ("a1", "a2", "a3")}


@pytest.mark.parametrize("seconds", [6, 7, 8])
def test_fragments_lost_with_whole_packets_accuse_nobody_after_both_pass_again(seconds):
    """A member's eth0 was smaller for a while, and each size that it carried may be the first to be asked for again."""
    world = _watched()
    world.faults += [faults.size_limit("underlay", "b3", 1380), faults.size_limit("overlay", "b3", 1330)]
    world.run(SEGMENT_NS + seconds * SECOND)
    assert {"mtu-black-hole@b3"} == set(world.verdicts().values())
    healed = world.now
    world.faults.clear()
    assert world.run_until(lambda: set(world.verdicts().values()) == {"none"}, limit_ns=5 * SECOND), world.story()
    world.run(5 * SECOND)

    assert not {fault for fault, _ in world.accusations(since=healed) if "fragments" in fault}


def test_measuring_can_be_switched_off():
    """Then nothing is sent."""

    def without(settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, mtu=msgspec.structs.replace(settings.mtu, enabled=False))

    world = healthy_world(mode=Mode.OBSERVE, adjust=without)

    assert () == world.nodes["b1"].engine.state.sizes.sessions
    assert [] == world.facts(out.VerdictChanged)
