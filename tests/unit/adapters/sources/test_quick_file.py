"""wg-quick's files."""

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.quick_file import MAX_PEERS, parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import QuickFile, QuickPeer

PATH = Path("/etc/wireguard/wg0.conf")
KEY, OTHER = "A" * 42 + "E=", "B" * 42 + "E="
PRIVATE = "P" * 42 + "E="
WHOLE = f"""# the fleet
[Interface]
Address = 10.8.0.3/24, fd00:8::3/64
PrivateKey = {PRIVATE}
ListenPort = 51820
MTU = 1420
PostUp = sysctl -w net.ipv4.ip_forward=1

[Peer]
PublicKey = {KEY}
Endpoint = gw.example.net:51820
AllowedIPs = 10.8.0.1/32
AllowedIPs = 10.9.0.0/16, fd00:8::1
PersistentKeepalive = 25

# the second
[Peer]
PublicKey = {OTHER}
AllowedIPs = 10.8.0.2/32
"""


def test_a_file_is_read_without_its_secrets():
    """Several lines of AllowedIPs are one list."""
    first = QuickPeer(
        public_key=KEY,
        endpoint="gw.example.net:51820",
        allowed_ips=("10.8.0.1/32", "10.9.0.0/16", "fd00:8::1/128"),
        keepalive_s=25,
    )
    wanted = QuickFile(
        path=str(PATH),
        device="wg0",
        addresses=("10.8.0.3/24", "fd00:8::3/64"),
        listen_port=51820,
        mtu_bytes=1420,
        peers=(first, QuickPeer(public_key=OTHER, allowed_ips=("10.8.0.2/32",))),
    )

    assert wanted == parse(WHOLE.encode(), PATH)
    assert PRIVATE.encode() not in msgspec.json.encode(parse(WHOLE.encode(), PATH))


def test_names_have_no_case():
    """Wg and wg-quick do not mind either."""
    text = WHOLE.replace("ListenPort", "listenport").replace("MTU", "mtu").replace("[Peer]", "[PEER]")

    assert parse(WHOLE.encode(), PATH) == parse(text.encode(), PATH)


def test_table_off_means_no_routes():
    """Then somebody else routes."""
    assert not parse(WHOLE.replace("MTU = 1420", "Table = off").encode(), PATH).has_routes
    assert parse(WHOLE.replace("25", "off").encode(), PATH).peers[0].keepalive_s == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[Interface]", "[Server]", "not understood"),
        (WHOLE, "", "no section [Interface]"),
        (WHOLE, "hello", "no"),
        ("10.8.0.3/24", "10.8.0.300/24", "Address: '10.8.0.300/24' is no address"),
        ("51820\nMTU", "518200\nMTU", "ListenPort: '518200' is no number up to 65535"),
        ("10.9.0.0/16", "10.9.0.0/160", "AllowedIPs: '10.9.0.0/160' is no address"),
        (f"PublicKey = {KEY}\n", "", "is no key"),
        (KEY, KEY[:-4], "is no key"),
        ("gw.example.net:51820", "gw.example.net", "Endpoint: 'gw.example.net' is no host and port"),
        ("= 25", "= often", "PersistentKeepalive: 'often' is no number"),
    ],
)
def test_other_files_are_refused(old, new, reason):
    """With the file, the key and what is there."""
    with pytest.raises(DecodeError) as refused:
        parse(WHOLE.replace(old, new).encode(), PATH)

    assert str(PATH) == refused.value.source
    assert reason in refused.value.reason


def test_a_complaint_does_not_quote_secrets():
    """It goes to the log."""
    with pytest.raises(DecodeError) as refused:
        parse(WHOLE.replace("= 25", "= often").encode(), PATH)

    assert PRIVATE not in str(refused.value)


def test_a_file_name_is_a_devices_name():
    """Others are no files of wg-quick."""
    with pytest.raises(DecodeError, match="cannot be a device's name"):
        parse(WHOLE.encode(), Path("a device with a long name.conf"))


def test_peers_are_bounded():
    """More are where people dial in."""
    peers = "".join(f"[Peer]\nPublicKey = {number:042d}E=\n\n" for number in range(MAX_PEERS + 1))

    with pytest.raises(DecodeError, match=f"more than {MAX_PEERS} peers"):
        parse(f"[Interface]\nListenPort = 1\n\n{peers}".encode(), PATH)


LINES = st.lists(st.sampled_from([*WHOLE.split("\n"), "=", "[", "[Peer", "AllowedIPs =", "#! [Peer]"]), max_size=12)


@given(st.text(max_size=80) | LINES.map("\n".join))
def test_no_text_makes_it_fail_otherwise(text):
    """A file, or a reason."""
    with contextlib.suppress(DecodeError):
        parse(text.encode(errors="surrogatepass"), PATH)
