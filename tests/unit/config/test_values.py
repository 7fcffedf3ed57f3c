"""Single values: what is accepted, and what is said of the rest."""

from __future__ import annotations

import base64

import pytest

from meshwatchd.config import values


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (values.check_name, "worker-1.example.net"),
        (values.check_address, "10.2.0.11"),
        (values.check_prefix, "10.244.4.0/24"),
        (values.check_endpoint, "198.51.100.21"),
        (values.check_endpoint, "vpn.example.net"),
        (values.check_endpoint, f"{'a' * 63}.example.net"),
        (values.check_port_range, "10000-29999"),
        (values.check_device, "flannel.1"),
        (values.check_public_key, base64.b64encode(bytes(32)).decode()),
    ],
)
def test_a_good_value_passes(check, text):
    """No finding is no news."""
    assert [] == list(check("key", text))


@pytest.mark.parametrize(
    ("check", "text", "remedy"),
    [
        (values.check_name, "", "use letters, digits and hyphens, as in a host name"),
        (values.check_name, "-x", "use letters, digits and hyphens, as in a host name"),
        (values.check_address, "10.2.0", "write four numbers, as in 10.2.0.11"),
        (values.check_address, "fe80::1", "write four numbers, as in 10.2.0.11"),
        (values.check_address, "127.0.0.1", "write the address others reach"),
        (values.check_prefix, "0.0.0.0/0", "write the prefix of this node's pods"),
        (values.check_prefix, "10.1.2.3/8", "write 10.0.0.0/8"),
        (values.check_prefix, "10.1.2.0/33", "write address/length, as in 10.244.4.0/24"),
        (values.check_endpoint, "vpn.example.net:1", "write 'vpn.example.net'; the port follows from standby.port"),
        (values.check_endpoint, "vpn..net", "use letters, digits and hyphens, as in a host name"),
        (values.check_endpoint, f"{'a' * 64}.net", "write 1 to 63 letters between two dots, as the DNS takes them"),
        (values.check_port_range, "1-70000", "write first-last, as in 10000-29999"),
        (values.check_device, "much-too-long-name", "write 1 to 15 characters without space, slash or colon"),
    ],
)
def test_a_bad_value_gets_its_remedy(check, text, remedy):
    """One finding each, under the key that was given."""
    (finding,) = check("some.key", text)
    assert ("some.key", remedy) == (finding.key, finding.remedy)


def test_a_number_out_of_range_tells_why():
    """The bound alone would look arbitrary."""
    (finding,) = values.check_number("k", 9, least=1, most=8, why="there are eight")
    assert ("9 is out of range", "write 1 to 8 (there are eight)") == (finding.problem, finding.remedy)


@pytest.mark.parametrize("text", ["", "abc", "c2hvcnQ=", "\N{SNOWMAN}" * 44, base64.b64encode(bytes(33)).decode()])
def test_what_is_no_key_decodes_to_none(text):
    """Neither a wrong alphabet nor a wrong length raises."""
    assert values.decode_key(text) is None
