"""Probes that are bound to a device find it by its name, whatever becomes of it."""

from __future__ import annotations

import errno

import msgspec

from meshwatchd.model.events import ReplyReceived, SendFailed
from tests.support.packet_node import free_port, nodes, plan, send
from tests.support.pump import pump


def _send(node, *commands):
    for command in commands:
        node.prober.send(command)
    node.prober.flush()


def test_a_device_that_is_made_anew_costs_no_probe(monkeypatch):
    """Its old index is none any more: the probe that finds out leaves by the new one."""
    with nodes("a1", "b1") as (poller, [sender, peer]):
        port = free_port()
        peer.reflector.listeners.listen((port,))
        with monkeypatch.context() as before:
            before.setattr("socket.if_nametoindex", lambda _: 999_999)
            sender.prober.configure((msgspec.structs.replace(plan(port), device="lo"),))
        _send(sender, send(1), send(2))
        pump(poller, lambda: len(sender.events) == 2)

        assert [ReplyReceived] * 2 == [type(event) for event in sender.events]
        assert (2, 0) == (sender.counters["probes-sent"], sender.counters["sends-failed"])


def test_a_device_that_is_gone_fails_each_probe():
    """No other way is taken."""
    with nodes("a1") as (_, [sender]):
        sender.prober.configure((msgspec.structs.replace(plan(free_port()), device="mw-none"),))
        _send(sender, send(1), send(2))

        failed = [event for event in sender.events if isinstance(event, SendFailed)]
        assert [(1, errno.ENODEV), (2, errno.ENODEV)] == [(each.seq, each.errno) for each in failed]
