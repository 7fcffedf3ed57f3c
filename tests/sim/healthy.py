"""The lab's mesh in simulation, ready: made once for each set of arguments, and copied."""

from __future__ import annotations

from collections.abc import Mapping

from meshwatchd.model.settings import SECOND, Mode, PolicySettings
from tests.sim.clones import made_once
from tests.sim.parts import as_it_is
from tests.sim.world import Adjust, World


def healthy_world(
    *,
    seed: int = 1,
    mode: Mode = Mode.ENFORCE,
    modes: Mapping[str, Mode] | None = None,
    policy: PolicySettings | None = None,
    adjust: Adjust = as_it_is,
) -> World:
    """A world in which every daemon is ready and every session has been up."""
    return _healthy_world((seed, mode, tuple(sorted((modes or {}).items()))), policy, adjust)


@made_once
def _healthy_world(
    made: tuple[int, Mode, tuple[tuple[str, Mode], ...]], policy: PolicySettings | None, adjust: Adjust
) -> World:
    seed, mode, modes = made
    world = World(seed=seed, mode=mode, modes=dict(modes), policy=policy, adjust=adjust)
    world.run(2 * SECOND)
    assert all(node.controller.is_ready for node in world.nodes.values()), world.story()
    return world
