"""A canary that cannot be asked is refused with its key and the remedy."""

from __future__ import annotations

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import SECOND

PROBE = "[probe]\nport = 18618"
CANARY = """
[[probe.canary]]
name = "web"
address = "10.244.6.9"
port = 80
node = "b3"
"""


def test_a_canary_needs_four_keys_and_gets_defaults_for_the_rest(tmp_path, mesh_toml):
    """UDP, any answer, once a second."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(mesh_toml.replace(PROBE, PROBE + CANARY))

    assert (Canary(name="web", address="10.244.6.9", port=80, node=NodeName("b3")),) == load(path).probe.canary
    assert (CanaryKind.UDP, CanaryExpect.ANSWER, SECOND) == (
        load(path).probe.canary[0].kind,
        load(path).probe.canary[0].expect,
        load(path).probe.canary[0].interval,
    )


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        ('"web"', '"w_b"', "probe.canary[0] (w_b).name: 'w_b' is no name; use letters"),
        (
            '"10.244.6.9"',
            '"web.example"',
            "probe.canary[0] (web).address: 'web.example' is no IPv4 address; write four",
        ),
        ('"10.244.6.9"', '"fe80::9"', "probe.canary[0] (web).address: fe80::9 means another host on each link; write"),
        ('"10.244.6.9"', '"fd00:0::9"', "probe.canary[0] (web).address: fd00:0::9 has a shorter form; write fd00::9"),
        ("port = 80", "port = 0", "probe.canary[0] (web).port: 0 is out of range; write 1 to 65535"),
        (
            '"b3"',
            '"c3"',
            "probe.canary[0] (web).node: 'c3' is no node of the mesh; write the node the pod runs on, one",
        ),
        (
            '"b3"',
            '"b3"\ninterval = "100ms"',
            "probe.canary[0] (web).interval: '100ms' is out of range; write 200 ms to",
        ),
        (
            '"b3"',
            '"b3"\nkind = "icmp"',
            "probe.canary[0] (web).kind: 'icmp' is none of the choices; write one of udp, tcp",
        ),
        ('"b3"', '"b3"\nexpect = "service"', 'probe.canary[0] (web).expect: "service" means a connection, and UDP has'),
        ('"b3"', '"b3"\nintervall = "1s"', "probe.canary[0] (web).intervall: unknown key; did you mean interval?"),
        ('"b3"\n', '"b3"' + CANARY, "probe.canary[1] (web).name: probe.canary[0] has the same name; give each its own"),
    ],
)
def test_each_mistake_is_named_with_its_remedy(spoil, good, bad, line):
    """File, key, problem, remedy."""
    assert 1 == CANARY.count(good)
    assert line in spoil(PROBE, PROBE + CANARY.replace(good, bad))


def test_there_is_a_limit(spoil):
    """Canaries are there to watch the mesh's last step, not to watch services."""
    canaries = "".join(CANARY.replace('"web"', f'"c{number}"') for number in range(17))

    line = "probe.canary: 17 are listed; keep at most 16 (one for each node that matters)"
    assert line == spoil(PROBE, PROBE + canaries)
