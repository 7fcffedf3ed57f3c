"""What is kept of the mesh comes back as it was, and nothing else is believed."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.adapters.storage import mesh_file
from meshwatchd.adapters.storage.mesh_file import FILE_NAME, Kept, KeptIdentity, KeptPeer
from meshwatchd.core.membership.identities import Step
from meshwatchd.model.discovery import Candidate
from meshwatchd.model.identity import PublicIdentity
from meshwatchd.model.ids import NodeName
from tests.support import hellos

KEPT: Kept = Kept(
    version=mesh_file.VERSION,
    node=hellos.hello("a1").view.node,
    saved_ns=7,
    own=hellos.hello("a1"),
    watched=(hellos.hello("b1").home,),
    leaders={hellos.hello("a1").home: hellos.hello("a1").view.node},
    peers=(
        KeptPeer(name=hellos.view("b1").node, hello=hellos.hello("b1"), heard_ns=5, epoch=3, counter=9),
        KeptPeer(name=hellos.view("b2").node, hello=None, heard_ns=6, epoch=4, counter=1),
    ),
)


def test_what_was_kept_comes_back(tmp_path):
    """All of it, in a file that nobody else reads."""
    assert "" == mesh_file.save(tmp_path / "state", KEPT)
    assert (KEPT, "") == mesh_file.load(tmp_path / "state", "a1")
    assert 0o600 == (tmp_path / "state" / FILE_NAME).stat().st_mode & 0o777


def test_a_first_start_has_nothing_and_no_problem(tmp_path):
    """There is no file yet."""
    assert (None, "") == mesh_file.load(tmp_path, "a1")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not understood"),
        (b"\xff\xfe", "not understood"),
        (b'{"version": 1}', "not understood"),
        (b'{"version": 2}', "version 2, and this is a daemon for version 1"),
        (b"x" * (mesh_file.MAX_BYTES + 1), "larger than"),
    ],
)
def test_what_makes_no_sense_is_moved_aside(tmp_path, content, words):
    """Whoever wants to look finds it; the daemon starts without it, and again the next time."""
    (tmp_path / FILE_NAME).write_bytes(content)
    kept, problem = mesh_file.load(tmp_path, "a1")

    assert kept is None
    assert words in problem
    assert "moved aside as mesh.json.bad" in problem
    assert content == (tmp_path / "mesh.json.bad").read_bytes()
    assert (None, "") == mesh_file.load(tmp_path, "a1")


@pytest.mark.parametrize("field", ["pod_cidr", "node_ip", "overlay_ip"])
def test_a_word_of_its_own_that_makes_no_sense_is_not_used(tmp_path, field):
    """A digit that a disk has turned over would be an address for as long as the node cannot see the right one."""
    spoiled = msgspec.structs.replace(KEPT, own=hellos.hello("a1", seen={field: "10.244.1.0/84"}))
    mesh_file.save(tmp_path, spoiled)

    kept, problem = mesh_file.load(tmp_path, "a1")
    assert msgspec.structs.replace(KEPT, own=None) == kept
    assert f"{field} '10.244.1.0/84' is no" in problem


def _crowd(hello, count=2048):
    """Many nodes with long names, each known by an identity."""
    names = [NodeName(f"{number:0244}") for number in range(count)]
    identity = PublicIdentity(signing=bytes(32), exchange=bytes(32))
    return msgspec.structs.replace(
        KEPT,
        peers=(*KEPT.peers, *(KeptPeer(name=name, hello=hello, heard_ns=1, epoch=1, counter=1) for name in names)),
        identities=tuple(
            KeptIdentity(name=name, identity=identity, step=Step.SIGNS, since_ns=1, heard_ns=1) for name in names
        ),
    )


def test_identities_outlast_hellos_for_which_there_is_no_room(tmp_path):
    """Somebody with the mesh key makes up nodes that say much; the largest hellos are left out, and nobody's name."""
    large = hellos.hello("b3", seen={"candidates": (Candidate(address=""),) * 92})
    kept = _crowd(large)
    assert len(msgspec.json.encode(kept)) > mesh_file.MAX_BYTES

    problem = mesh_file.save(tmp_path, kept)
    assert "would be larger than 8388608 bytes; the largest hellos are left out" in problem
    loaded, wrong = mesh_file.load(tmp_path, "a1")
    assert loaded is not None
    assert ("", kept.identities) == (wrong, loaded.identities)
    assert KEPT.peers == loaded.peers[:2]
    assert [each.name for each in kept.peers] == [each.name for each in loaded.peers]
    assert 0 < sum(each.hello is not None for each in loaded.peers[2:]) < 2048
    assert (tmp_path / FILE_NAME).stat().st_size > mesh_file.MAX_BYTES - len(msgspec.json.encode(large))


def test_a_full_mesh_has_room(tmp_path):
    """As many nodes as are ever kept, with the longest names, and what nodes say."""
    kept = _crowd(hellos.hello("b3"))
    assert "" == mesh_file.save(tmp_path, kept)
    assert (kept, "") == mesh_file.load(tmp_path, "a1")


def test_what_has_no_room_without_hellos_does_not_replace_the_file(tmp_path):
    """What was kept before is better than nothing."""
    mesh_file.save(tmp_path, KEPT)

    assert "would be larger than" in mesh_file.save(tmp_path, _crowd(None, count=16_384))
    assert (KEPT, "") == mesh_file.load(tmp_path, "a1")


def test_a_copied_disk_is_noticed(tmp_path):
    """Another node's memory is no memory; its owner may come back for it."""
    mesh_file.save(tmp_path, KEPT)
    kept, problem = mesh_file.load(tmp_path, "b3")

    assert kept is None
    assert "is of node a1, and this is b3" in problem


def test_a_disk_that_cannot_be_written_is_told(tmp_path):
    """Nothing else depends on it."""
    (tmp_path / "file").write_text("")
    problem = mesh_file.save(tmp_path / "file", KEPT)

    assert "is forgotten at the next restart" in problem


def test_a_directory_in_the_files_place_is_told(tmp_path):
    """It is not ours to remove."""
    (tmp_path / FILE_NAME).mkdir()
    kept, problem = mesh_file.load(tmp_path, "a1")

    assert kept is None
    assert FILE_NAME in problem
