"""A node written down, and read again."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from meshwatchd.adapters.sources import SourceReader
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.snapshot import WireGuardPeer, WireGuardState
from meshwatchd.model.sources import QuickFile, QuickPeer, Sources
from meshwatchd.profiles.compose import look
from meshwatchd.runtime.capture import Capture, capture, main, parse, render
from tests.support.node_states import graph, kilo_flannel
from tests.unit.adapters.sources.test_reader import places_in

KEYS = ("xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "gN65BkIKy1eCE9pP1wdc8ROUtkHLF2PfAqYdyYBz6EA=")


def captured():
    """A node with keys in two places."""
    peers = tuple(WireGuardPeer(public_key=key) for key in KEYS)
    state = WireGuardState(device="kilo0", public_key=KEYS[0], listen_port=1, at_ns=2, peers=peers)
    snapshot = msgspec.structs.replace(kilo_flannel("a1"), wireguard=(state,))
    quick = QuickFile(path="wg0.conf", device="wg0", peers=(QuickPeer(public_key=KEYS[1]),))
    sources = Sources(kilo=graph(), quick=(quick,))
    node = NodeName("a1")
    return Capture(node=node, snapshot=snapshot, sources=sources, view=look(snapshot, sources, Settings().mesh, node))


def test_keys_become_numbers_and_equal_ones_stay_equal():
    """Whoever publishes a capture publishes no identity."""
    text = render(captured())
    again = parse(text.encode())

    assert not any(key in text for key in KEYS)
    (state,), (file,) = again.snapshot.wireguard, again.sources.quick
    assert [state.public_key, file.peers[0].public_key] == [peer.public_key for peer in state.peers]
    assert 2 == len({peer.public_key for peer in state.peers})


def test_everything_else_survives():
    """A capture is what the profiles were given."""
    before, after = captured(), parse(render(captured()).encode())

    assert msgspec.structs.replace(before.snapshot, wireguard=()) == msgspec.structs.replace(
        after.snapshot, wireguard=()
    )
    assert (before.sources.kilo, before.view, before.node) == (after.sources.kilo, after.view, after.node)


def test_this_machine_can_be_captured(tmp_path):
    """By whoever may read its tables, which is everybody."""
    reader = SourceReader(places_in(tmp_path))

    found = asyncio.run(capture(Settings(), NodeName("here"), reader))

    assert found.snapshot.link("lo") is not None
    assert ("here", found.view) == (found.view.node, parse(render(found).encode()).view)


def test_the_command_writes_a_file(tmp_path, capsys):
    """Or says why it cannot."""
    assert 0 == main(["--node", "n7", "--output", str(tmp_path / "n7.json")])
    assert "n7" == parse((tmp_path / "n7.json").read_bytes()).node

    assert 1 == main(["--config", str(tmp_path / "none.toml")])
    assert "there is no such file" in capsys.readouterr().err


def test_without_a_file_it_goes_to_standard_output(capsys):
    """For a pipe."""
    assert 0 == main(["--node", "n7"])
    assert "n7" == parse(capsys.readouterr().out.encode()).node


def test_something_else_is_no_capture():
    """A test that reads half a file must not pass."""
    with pytest.raises(DecodeError):
        parse(b'{"node": "a1"}')
