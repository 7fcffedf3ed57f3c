"""What crosses from the reader to the engine, and what of a new configuration needs a restart."""

from __future__ import annotations

import os

import msgspec
import pytest

from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MINUTE, AuthSettings, DaemonSettings, MeshSettings, Mode, ProbeSettings, Settings
from meshwatchd.model.topology import Location, Node
from meshwatchd.runtime.boot import (
    Boot,
    Refusal,
    SharedBoot,
    changed_keys,
    decode,
    encode,
    hand_over,
    read_shared,
    take_over,
)
from meshwatchd.wire.auth import KeyRole, MeshSecret

SETTINGS = Settings(
    daemon=DaemonSettings(node="a1", mode=Mode.ENFORCE),
    mesh=MeshSettings(
        location=(Location(name=LocationName("here"), leader=NodeName("a1")),),
        node=(
            Node(
                name=NodeName("a1"),
                location=LocationName("here"),
                node_ip="10.0.0.1",
                pod_cidr="10.1.0.0/24",
                overlay_ip="10.1.0.0",
            ),
        ),
    ),
)
BOOT = Boot(
    config="/etc/meshwatchd/meshwatchd.toml",
    settings=SETTINGS,
    secrets=(MeshSecret(secret=bytes(32)), MeshSecret(secret=bytes(range(32)), role=KeyRole.RECEIVE_ONLY)),
)


def test_what_is_handed_over_is_taken_over():
    """Enumerations, names and bytes are what they were; the descriptor is closed."""
    fd = hand_over(BOOT)

    assert os.get_inheritable(fd), "it has to live through exec"
    assert BOOT == take_over(fd)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_every_agent_finds_what_was_shared_last():
    """From its beginning, whatever another one has read before; what is shorter leaves nothing of what was longer."""
    shared = SharedBoot(BOOT)
    assert not os.get_inheritable(shared.fd)
    assert [BOOT, BOOT] == [read_shared(os.dup(shared.fd)) for _ in range(2)]

    shorter = msgspec.structs.replace(BOOT, secrets=())
    shared.replace(shorter)
    assert shorter == read_shared(shared.fd)


def test_refusal_is_not_a_boot():
    """Both come through one pipe."""
    assert Refusal(reason="no") == decode(encode(Refusal(reason="no")))


@pytest.mark.parametrize("length", [0, 1, 100])
def test_reader_that_died_has_refused(length):
    """Half a boot is none."""
    word = decode(encode(BOOT)[:length])

    assert isinstance(word, Refusal)
    assert word.reason.startswith("the reader of the configuration ended early")


def test_same_settings_need_no_restart():
    """Keys are applied while running, wherever their files lie."""
    moved = msgspec.structs.replace(SETTINGS, auth=AuthSettings(key_file="/new.key", accepted_key_file="/old.key"))

    assert () == changed_keys(SETTINGS, SETTINGS)
    assert () == changed_keys(SETTINGS, moved)


def test_each_setting_that_differs_is_named():
    """As the operator wrote it in the file."""
    changed = msgspec.structs.replace(
        SETTINGS, probe=ProbeSettings(port=20_000, flow_memory=MINUTE), mesh=MeshSettings(location=())
    )

    expected = ("probe.port", "probe.flow_memory", "mesh.location", "mesh.node")
    assert expected == changed_keys(SETTINGS, changed)
