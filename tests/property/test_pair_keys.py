"""Two nodes come from the key of the mesh to one of their own, whatever is lost or restarted, and lose no probe."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meshwatchd.core.membership.identities import GRACE_NS
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import MINUTE, MS, SECOND
from meshwatchd.runtime.pair_keys import PairKeys
from meshwatchd.wire.auth import MeshKeys, MeshSecret, node_id
from meshwatchd.wire.hello import Greeting, Stamp
from tests.support import hellos

BOUNDED = settings(derandomize=True, max_examples=150, deadline=None)
SECRET = MeshSecret(secret=bytes(range(32)))
PEERS = {"a1": NodeName("b1"), "b1": NodeName("a1")}
SAVE_NS = 5 * SECOND
"""As late as a file may be written."""


class End:
    """One node: the agent that hears hellos, and an engine that hears of keys a moment later."""

    def __init__(self, name, folder):
        self.name, self.peer, self.folder = name, PEERS[name], folder / name
        self.now = self.delay_ns = 0
        self.saved: tuple[Any, ...] = ((), None, 0)
        self.restart(has_engine=True)

    def restart(self, *, has_engine):
        """The agent begins anew with its file, alone or with the engine, which knows nothing until it is told."""
        self.on_way: list[Any] = []
        if has_engine:
            self.engine = MeshKeys(self.name, [SECRET])
            self.engine.add_peer(self.peer)
        self.pairs = PairKeys(NodeName(self.name), self.folder, forget_ns=10**18, tell=self._tell)
        identities, own, _at_ns = self.saved
        self.pairs.restore(identities, own, now=self.now, wall_ns=self.now)
        self.pairs.advance(self.now)
        if has_engine:
            # It is told before its first picture of the kernel, and does not probe without one.
            self.take_over(10**18)

    def take_over(self, now):
        """The engine reads what has arrived."""
        while self.on_way and self.on_way[0][0] <= now:
            self.engine.bind(self.on_way.pop(0)[1])

    def _tell(self, bindings):
        self.on_way.append((self.now + self.delay_ns, bindings))

    def step(self, now):
        """Whatever is due at this instant."""
        self.now = now
        self.pairs.advance(now)
        self.take_over(now)
        if now - self.saved[2] >= SAVE_NS:
            assert self.pairs.identity is not None
            self.saved = (self.pairs.kept(now, now), self.pairs.identity.public, now)

    def hello(self):
        """To the peer."""
        assert self.pairs.identity is not None
        holds, signs_pair = self.pairs.word_to(self.peer, self.now)
        return Greeting(
            sender=self.name,
            stamp=Stamp(1, 1),
            hello=hellos.hello(self.name),
            holds=holds,
            signs_pair=signs_pair,
            identity=self.pairs.identity.public,
        )

    def passes(self, other):
        """Whether a probe to the other end and its answer are believed."""
        key = self.engine.sending(self.peer)
        there = other.engine.receiving(node_id(self.name), key.key_id)
        return (
            there is not None
            and there.receive.is_tag_of(key.send.tag(b"probe"), b"probe")
            and key.receive.is_tag_of(there.send.tag(b"answer"), b"answer")
        )


happenings = st.lists(
    st.tuples(
        st.sampled_from(["hello a1", "hello b1", "restart a1", "restart b1", "agent a1", "agent b1", "lost"]),
        st.integers(1, 20 * SECOND),
        st.integers(0, SECOND),
    ),
    max_size=25,
)


@BOUNDED
@given(happenings)
def test_no_probe_is_lost_on_the_way_to_a_key_of_the_pair(happenings):
    """Hellos are lost, agents restart from files that are seconds old, engines hear late of what was decided."""
    with tempfile.TemporaryDirectory() as folder:
        ends = {name: End(name, Path(folder)) for name in PEERS}
        now = 0
        for what, wait_ns, delay_ns in happenings:
            verb, _, name = what.partition(" ")
            if verb == "hello":
                other = ends[PEERS[name]]
                greeting = ends[name].hello()
                assert other.pairs.accepts(greeting, now)
                other.pairs.hear(greeting, now)
            elif name:
                ends[name].restart(has_engine=verb == "restart")
            for end in ends.values():
                end.delay_ns = delay_ns
            until_ns = now + wait_ns
            while now < until_ns:
                now = min(until_ns, now + 250 * MS)
                for end in ends.values():
                    end.step(now)
                assert ends["a1"].passes(ends["b1"])
                assert ends["b1"].passes(ends["a1"])

        for _ in range(4):
            for name, end in ends.items():
                ends[PEERS[name]].pairs.hear(end.hello(), now)
            now += MINUTE
            for end in ends.values():
                end.step(now)
        for end in ends.values():
            end.step(now + GRACE_NS + SECOND)
            assert end.engine.receiving(node_id(end.peer), end.engine.signing_id) is None, "the mesh's key counts still"
