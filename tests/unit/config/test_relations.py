"""Ports, tables, priorities and durations that do not fit together are refused with the arithmetic."""

from __future__ import annotations

import pytest

from meshwatchd.config.relations import check_relations
from meshwatchd.model.settings import (
    DaemonSettings,
    DiscoverySettings,
    MeshSettings,
    Mode,
    ProbeProfile,
    ProbeSettings,
    Settings,
)

GOOD = Settings(daemon=DaemonSettings(node="b3"))


def test_the_defaults_are_accepted():
    """A default that needs a remedy would be a joke."""
    assert [] == list(check_relations(GOOD))


@pytest.mark.parametrize("profile", list(ProbeProfile))
def test_the_default_ports_last_longer_than_the_flow_memory_in_every_profile(profile):
    """Fresh sessions go at the pace at which ports become free again, and that is fast enough for each."""
    settings = Settings(daemon=GOOD.daemon, probe=ProbeSettings(profile=profile))
    assert [] == list(check_relations(settings))


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ("18618", "70000", "probe.port: 70000 is out of range; write 1026 to 65024 (512 ports follow)"),
        ("18618", "51700", "probe.port: 51698 to 52211 contain 51820, the WireGuard of Kilo; choose ports nobody"),
        ("51830", "51815", "standby.port: 51815 to 51821 contain 51820, the WireGuard of Kilo; choose ports"),
        ("51830", "51870", "standby.port: 51870 to 51876 contain 51871, the WireGuard of Cilium; choose ports"),
        ("51830", "18610", "standby.port: 18610 to 18616 overlap the probe ports 18616 to 19129; keep them apart"),
        ("51830", "18700", "standby.port: 18700 to 18706 overlap the probe ports 18616 to 19129; keep them apart"),
        ("port = 51830", "mtu = 100", "standby.mtu: 100 is out of range; write 576 to 65455 (bytes inside the tunnel)"),
        ("protocol = 117", "protocol = 3", "kernel.protocol: 3 is out of range; write 5 to 255"),
        ("protocol = 117", "protocol = 12", "kernel.protocol: 12 marks the routes of BIRD; choose a number nobody"),
        ("protocol = 117", "table_base = 1100", "kernel.table_base: tables 1100 to 1199 contain 1107 of Kilo"),
        ("protocol = 117", "table_base = 200", "kernel.table_base: tables 200 to 299 contain 253 of the kernel"),
        ("protocol = 117", "table_base = 0", "kernel.table_base: 0 is out of range; write 1 to 4294967196"),
        ("protocol = 117", "priority_base = 100", "kernel.priority_base: 100 is out of range; write 111 to 31900"),
        ("protocol = 117", "priority_base = 5250", "kernel.priority_base: priorities 5250 to 5349 contain 5210 to"),
        ("protocol = 117", 'device_prefix = "MW-"', "kernel.device_prefix: 'MW-' is no prefix for devices; write"),
        ('"kilo"', '"kilo"\nwireguard_device = "mw0"', "kernel.device_prefix: mesh.wireguard_device mw0 would be"),
        ('"kilo"', '"kilo"\noverlay_device = "a b"', "mesh.overlay_device: 'a b' is no device name; write 1 to 15"),
        ("port = 18618", "packets_per_second = 9", "probe.packets_per_second: 9 is out of range; write 50 to 1000000"),
        ("port = 18618", 'flow_memory = "20"', "probe.flow_memory: '20' is no duration; write a number and a unit"),
        ('"30s"', '"1000h"', "policy.hold_down: '1000h' is out of range; write 0 us to 24 h"),
        ('hold_down = "30s"', "actions_per_minute = 0", "policy.actions_per_minute: 0 is out of range; write 1 to"),
        ('hold_down = "30s"', "actions_per_day = 0", "policy.actions_per_day: 0 is out of range; write 1 to 10000"),
        ('hold_down = "30s"', "jitter_percent = 101", "policy.jitter_percent: 101 is out of range; write 0 to 100"),
        ('hold_down = "30s"', 'half_life = "1ms"', "policy.half_life: '1ms' is out of range; write 100 ms to 1 h"),
        ('hold_down = "30s"', "suppress = 900", "policy.suppress: 900 is out of range; write 1001 to 100000"),
        ('hold_down = "30s"', "reuse = 2000", "policy.reuse: 2000 is out of range; write 1 to 1999"),
        ('hold_down = "30s"', "storm_locations = 1", "policy.storm_locations: 1 is out of range; write 2 to 1000"),
        ("port = 51830", 'keepalive = "100ms"', "standby.keepalive: '100ms' is out of range; write 1 s to 1 min"),
        ("port = 18618", 'source_ports = "9-1"', "probe.source_ports: '9-1' is no port range; write first-last"),
        ("port = 18618", 'source_ports = "80-30000"', "probe.source_ports: 80 is privileged; start at 1024"),
        ('node = "b3"', 'node = "b3"\nlog_format = "xml"', "daemon.log_format: 'xml' is none of the choices; write"),
        (
            "port = 18618",
            'port = 18618\n[auth]\nkey_file = "mesh.key"',
            "auth.key_file: 'mesh.key' is no absolute path",
        ),
        (
            "port = 18618",
            'port = 18618\n[auth]\naccepted_key_file = "next.key"',
            "auth.accepted_key_file: 'next.key' is no absolute path; start it with",
        ),
        (
            "port = 18618",
            'port = 18618\n[auth]\naccepted_key_file = "/etc/meshwatchd/mesh.key"',
            "auth.accepted_key_file: /etc/meshwatchd/mesh.key is auth.key_file again; name the other file of",
        ),
        ('node = "b3"', 'node = "b3"\nstate_dir = "x"', "daemon.state_dir: 'x' is no absolute path; start it with"),
    ],
)
def test_a_number_that_does_not_fit_is_refused(spoil, good, bad, line):
    """File, key, what is wrong, what to write: in one line."""
    assert line in spoil(good, bad)


@pytest.mark.parametrize(
    ("bad", "line"),
    [
        (
            'source_ports = "20000-20999"',
            (
                "probe.source_ports: 20000-20999 leaves 750 ports to regular probes; for one each 200 ms "
                '(profile "default") not to repeat within the flow memory of 15 min there must be 4565; '
                "make the range 6599 ports wide, or shorten probe.flow_memory"
            ),
        ),
        (
            'flow_memory = "1h"',
            (
                "probe.source_ports: 10000-29999 leaves 14616 ports to regular probes; for one each 200 ms "
                '(profile "default") not to repeat within the flow memory of 1 h there must be 18065; '
                "make the range 24599 ports wide, or shorten probe.flow_memory"
            ),
        ),
        (
            'source_ports = "20000-21599"\nflow_memory = "3min"',
            (
                "probe.source_ports: 20000-21599 leaves 400 ports to burst probes; for one each 1 s "
                '(profile "default") not to repeat within the flow memory of 3 min there must be 693; '
                "make the range 3284 ports wide, or shorten probe.flow_memory"
            ),
        ),
    ],
)
def test_ports_that_repeat_within_flow_memory_are_refused_with_the_arithmetic(spoil, bad, line):
    """A fresh probe on a remembered flow would sail through the very fault it is sent to find."""
    assert line == spoil("port = 18618", bad)


def test_a_runtime_directory_has_room_for_the_sockets_name():
    """The kernel takes 107 bytes of it, and a daemon without its socket could not be asked."""
    fits, too_long = (Settings(daemon=DaemonSettings(node="b3", runtime_dir="/" + "x" * size)) for size in (93, 94))
    assert [] == list(check_relations(fits))
    (finding,) = check_relations(too_long)
    assert ("daemon.runtime_dir", "write at most 94 bytes") == (finding.key, finding.remedy)


def test_enforcing_without_a_mesh_is_refused_where_none_may_be_found():
    """Somebody who asked for protection must not believe to have it."""
    enforcing = DaemonSettings(node="b3", mode=Mode.ENFORCE)
    finding = next(check_relations(Settings(daemon=enforcing, discovery=DiscoverySettings(enabled=False))))
    assert ("daemon.mode", '"enforce" needs a mesh, and none is declared') == (finding.key, finding.problem)


def test_enforcing_a_mesh_that_is_to_be_found_is_accepted():
    """The mesh key and the mode are all an operator has to write."""
    assert [] == list(check_relations(Settings(daemon=DaemonSettings(node="b3", mode=Mode.ENFORCE))))


@pytest.mark.parametrize(
    ("profile", "traits", "is_right"),
    [
        ("cilium-clustermesh", (), True),
        ("antrea", (), True),
        ("submariner", (), True),
        ("kilo", (), False),
        ("other", ("direct",), True),
        ("other", (), False),
    ],
)
def test_a_kind_of_mesh_without_a_tunnel_has_no_device_to_name(profile, traits, is_right):
    """Nor have Submariner's workers; all others do not work without."""
    mesh = MeshSettings(profile=profile, traits=traits, wireguard_device="")
    found = [each.key for each in check_relations(Settings(daemon=GOOD.daemon, mesh=mesh))]

    assert ([] if is_right else ["mesh.wireguard_device"]) == found
