"""The reflector for other makers: each mistake, and the line that says how to correct it."""

from __future__ import annotations

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.stamp import StampMode, StampSettings

GOOD = """
[stamp]
listen = 862
mode = "authenticated"
key_file = "/etc/meshwatchd/stamp.key"
allow = ["198.51.100.7/32", "2001:db8:7::/64"]
stateful = false
packets_per_second = 50
"""

TOO_LARGE = "would answer half the world; write prefixes of your own, with a length of"
LIST_THE_SENDERS = 'list the prefixes of the senders, as in allow = ["198.51.100.7/32"], or write listen = 0'
NAME_A_KEY = 'name the file with the key shared with the senders, or write mode = "open"'


def test_a_good_section_is_taken(tmp_path):
    """And without one there is no reflector."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(GOOD)
    assert (
        StampSettings(
            listen=862,
            mode=StampMode.AUTHENTICATED,
            key_file="/etc/meshwatchd/stamp.key",
            allow=("198.51.100.7/32", "2001:db8:7::/64"),
            stateful=False,
            packets_per_second=50,
        )
        == load(path).stamp
    )
    path.write_text("")
    assert 0 == load(path).stamp.listen


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [
        (
            '["198.51.100.7/32", "2001:db8:7::/64"]',
            "[]",
            f"stamp.allow: is empty, so nobody would be answered; {LIST_THE_SENDERS}",
        ),
        (
            "198.51.100.7/32",
            "0.0.0.0/0",
            f"stamp.allow[0]: 0.0.0.0/0 {TOO_LARGE} 8 or more",
        ),
        (
            "2001:db8:7::/64",
            "2000::/3",
            f"stamp.allow[1]: 2000::/3 {TOO_LARGE} 19 or more",
        ),
        (
            "198.51.100.7/32",
            "198.51.100.7/24",
            "stamp.allow[0]: 198.51.100.7/24 is not how a prefix is written; write 198.51.100.0/24",
        ),
        (
            "198.51.100.7/32",
            "everybody",
            "stamp.allow[0]: 'everybody' is no prefix; write address/length, as in 198.51.100.7/32 or 2001:db8:7::/64",
        ),
        (
            "/etc/meshwatchd/stamp.key",
            "",
            f'stamp.key_file: is empty, and mode is "authenticated"; {NAME_A_KEY}',
        ),
        ("/etc/meshwatchd/stamp.key", "stamp.key", "stamp.key_file: 'stamp.key' is no absolute path; start it with /"),
        ("862", "65536", "stamp.listen: 65536 is out of range; write 0 to 65535 (0 switches it off)"),
        ("862", "18616", "stamp.listen: 18616 is the port of probes (probe.port); choose another, such as 862"),
        ("862", "18700", "stamp.listen: 18700 is the port of probes (probe.port); choose another, such as 862"),
        (
            "862",
            "51831",
            "stamp.listen: 51831 is the port of standby links (standby.port); choose another, such as 862",
        ),
        ("862", "4789", "stamp.listen: 4789 is the port of VXLAN; choose another, such as 862"),
        ("= 50", "= 0", "stamp.packets_per_second: 0 is out of range; write 1 to 10000"),
        (
            '"authenticated"',
            '"encrypted"',
            "stamp.mode: 'encrypted' is none of the choices; write one of open, authenticated",
        ),
        ("stateful", "statefull", "stamp.statefull: unknown key; did you mean stateful?"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, good, bad, line):
    """File, key path, problem, remedy."""
    path = tmp_path / "meshwatchd.toml"
    assert 1 == GOOD.count(good)
    path.write_text(GOOD.replace(good, bad))
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert f"{path}: {line}" == str(caught.value)


def test_too_many_prefixes_are_refused(tmp_path):
    """A socket filter has an end."""
    path = tmp_path / "meshwatchd.toml"
    prefixes = ", ".join(f'"10.0.{number}.0/24"' for number in range(65))
    path.write_text(f"[stamp]\nallow = [{prefixes}]\n")
    with pytest.raises(ConfigError, match=r"stamp\.allow: 65 are listed; keep at most 64 \(join"):
        load(path)
