"""How seldom bad luck alone condemns a path: one node's sessions, probes lost at random, for hours of virtual time.

    python -m tests.sim.false_trips --loss 0.05 --hours 24

The schedule, the sessions, the groups and the confirm bursts are the daemon's own; answers come from dice, each way
with the given loss, but over loopback, which is no wire and loses nothing. Prints JSON: what was sent, what the bursts
added, the largest sum, and every false condemnation.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from typing import NamedTuple

from meshwatchd.core.engine import Engine
from meshwatchd.core.session.cusum import TRIP_NATS
from meshwatchd.model import events as ev
from meshwatchd.model import outputs as out
from meshwatchd.model.ids import Layer, NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND, ProbeProfile, ProbeSettings, Settings
from meshwatchd.profiles import PROFILES
from tests.support.lab_mesh import settings_for, snapshot_of
from tests.support.run_length import probes_between_false_trips

RTT_NS, JITTER_NS = 10 * MS, 2 * MS
HOUR = 60 * MINUTE


class Tally(NamedTuple):
    """What came of it.

    Attributes:
        condemned: how often a path was condemned.
        accused: how often a fault was named.
        peak_nats: the largest evidence against any path.
    """

    loss_each_way: float
    hours: float
    probes: int
    burst_probes: int
    condemned: int
    accused: int
    peak_nats: float
    trip_nats: float
    probes_between_false_trips: float


def run(
    name: str, loss: float, duration_ns: int, *, seed: int = 1, profile: ProbeProfile = ProbeProfile.DEFAULT
) -> Tally:
    """Let one node probe for a while, every packet lost with the given probability on either way."""
    rng = random.Random(seed)
    engine = _engine(name, rng, profile)
    now, count = 50 * SECOND, 0
    due: list[tuple[int, int, ev.Event]] = [(now, 0, ev.SnapshotReceived(snapshot=snapshot_of(name)))]
    end, sent, bursts, condemned, accused, peak = now + duration_ns, 0, 0, 0, 0, 0.0
    down: set[int] = set()
    loop: set[int] = set()
    while now < end:
        deadline = engine.deadline()
        event: ev.Event = ev.Tick()
        if due and (deadline is None or due[0][0] <= deadline):
            at, _, event = heapq.heappop(due)
        else:
            assert deadline is not None, "an engine with sessions has something to do"
            at = deadline
        now = max(now, at)
        for output in engine.handle(event, now):
            if isinstance(output, out.SendProbe):
                sent, bursts = sent + 1, bursts + output.is_confirm
                if output.session in loop or rng.random() >= 1 - (1 - loss) ** 2:
                    count += 1
                    rtt_ns = RTT_NS + rng.randrange(JITTER_NS)
                    heapq.heappush(due, (now + rtt_ns, count, _answer(output, rtt_ns)))
            elif isinstance(output, out.ConfigureSessions):
                loop = {plan.session for plan in output.sessions if plan.layer is Layer.SELF}
            elif isinstance(output, out.VerdictChanged):
                accused += output.verdict.severity != "ok"
        if not isinstance(event, ev.Tick):
            # Waits end at ticks alone, and no sum grows by an answer; what is condemned stays so for many ticks.
            continue
        for controller in engine.state.controllers.values():
            for number, group in controller.watch.groups.items():
                peak = max(peak, group.nats)
                if group.is_down is not (number in down):
                    condemned += group.is_down
                    (down.add if group.is_down else down.discard)(number)
    every = probes_between_false_trips(1 - (1 - loss) ** 2)
    hours = duration_ns / HOUR
    return Tally(loss, hours, sent, bursts, condemned, accused, round(peak, 2), round(TRIP_NATS, 2), every)


def _engine(name: str, rng: random.Random, profile: ProbeProfile) -> Engine:
    settings = settings_for(name)
    settings = Settings(daemon=settings.daemon, mesh=settings.mesh, probe=ProbeSettings(profile=profile))
    return Engine(settings=settings, node=NodeName(name), rng=rng, epoch=1, profiles=PROFILES)


def _answer(probe: out.SendProbe, rtt_ns: int) -> ev.ReplyReceived:
    return ev.ReplyReceived(session=probe.session, seq=probe.seq, rtt_ns=rtt_ns, peer_epoch=1, banner=ev.Banner())


def main(arguments: list[str]) -> int:
    """Run as often as asked and print the tallies; 1 when anything was condemned."""
    parser = argparse.ArgumentParser(description="count condemnations by bad luck alone")
    parser.add_argument("--loss", type=float, action="append", help="on each way; may be repeated")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--node", default="a1")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    losses = asked.loss or [0.02, 0.05]
    tallies = [run(asked.node, loss, int(asked.hours * HOUR), seed=asked.seed) for loss in losses]
    json.dump([tally._asdict() for tally in tallies], sys.stdout, indent=2)
    sys.stdout.write("\n")
    return int(any(tally.condemned for tally in tallies))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
