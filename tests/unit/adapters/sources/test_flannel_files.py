"""Flannel's files."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.flannel_files import parse_configuration, parse_subnet
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import FlannelBackend, FlannelSubnet

PATH = Path("/run/flannel/subnet.env")
WHOLE = "FLANNEL_NETWORK=10.42.0.0/16\nFLANNEL_SUBNET=10.42.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"


def test_subnet_env_is_read():
    """The subnet is written with the bridge's address in it."""
    wanted = FlannelSubnet(path=str(PATH), network="10.42.0.0/16", pod_cidr="10.42.1.0/24", mtu_bytes=1450)

    assert wanted == parse_subnet(WHOLE.encode(), PATH)
    assert wanted == parse_subnet(f"# made by hand\n\n{WHOLE}FLANNEL_IPV6_NETWORK=fd00::/48\n".encode(), PATH)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("FLANNEL_MTU=1450\n", "", "there is no FLANNEL_MTU"),
        ("1450", "1450x", "FLANNEL_MTU: '1450x' is no number up to 65535"),
        ("1450", "", "FLANNEL_MTU: '' is no number"),
        ("10.42.1.1/24", "10.42.1.1/240", "FLANNEL_SUBNET: '10.42.1.1/240' is no IPv4 prefix"),
        ("FLANNEL_IPMASQ=", "export X ", "line 4 is no assignment"),
    ],
)
def test_other_files_are_refused(old, new, reason):
    """With the file, the line or key, and what is there."""
    with pytest.raises(DecodeError) as refused:
        parse_subnet(WHOLE.replace(old, new).encode(), PATH)

    assert str(PATH) == refused.value.source
    assert reason in refused.value.reason


@given(st.text(max_size=80) | st.lists(st.sampled_from(WHOLE.split("\n")), max_size=6).map("=\n".join))
def test_no_text_makes_it_fail_otherwise(text):
    """Values, or a reason; for both files."""
    for parse in (parse_subnet, parse_configuration):
        with contextlib.suppress(DecodeError):
            parse(text.encode(errors="surrogatepass"), PATH)


def test_the_backend_is_read_from_net_conf():
    """As K3s writes it."""
    data = b'{\n"Network": "10.42.0.0/16",\n"EnableIPv6": false,\n"Backend": {\n"Type": "vxlan"\n}\n}\n'

    assert FlannelBackend(path="x", network="10.42.0.0/16", backend="vxlan") == parse_configuration(data, Path("x"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{}", "missing required field `Backend`"),
        (b'{"Backend":{"Type":7}}', "Expected `str`"),
        (b'{"Backend":{"Type":"a b"}}', "'a b' is no backend"),
        (b'{"Backend":{"Type":"vxlan"},"Network":"all"}', "Network: 'all' is no IPv4 prefix"),
    ],
)
def test_other_configurations_are_refused(data, reason):
    """With the key."""
    with pytest.raises(DecodeError) as refused:
        parse_configuration(data, Path("net-conf.json"))

    assert "net-conf.json" == refused.value.source
    assert reason in refused.value.reason
