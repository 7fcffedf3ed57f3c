import io
from dataclasses import replace

from wgconfig import WGConfig

from meshwatchd.adapters.wireguard import conffile
from meshwatchd.adapters.wireguard.state import LinkConfig

CONFIG = LinkConfig(
    private_key="cHJpdmF0ZQ==",
    listen_port=51830,
    peer_public_key="cHVibGlj",
    endpoint=("203.0.113.11", 51830),
    allowed_ips=("10.244.1.0/24", "192.168.100.11/32"),
    keepalive_s=10,
    mtu_bytes=1420,
)


def read_back(text):
    """The text as wgconfig understands it."""
    file = WGConfig()
    file.read_from_fileobj(io.StringIO(text))
    return file


def test_what_is_written_reads_back():
    """With the library it was written by; that wg-quick agrees is tested in tests/lab."""
    file = read_back(conffile.render("mw0", "a1", CONFIG))

    interface = {"PrivateKey": "cHJpdmF0ZQ==", "ListenPort": 51830, "MTU": 1420, "Table": "off"}
    assert interface == file.get_interface()
    assert {
        "PublicKey": "cHVibGlj",
        "AllowedIPs": ["10.244.1.0/24", "192.168.100.11/32"],
        "Endpoint": "203.0.113.11:51830",
        "PersistentKeepalive": 10,
    } == file.get_peer("cHVibGlj")


def test_loaded_by_hand_it_attracts_no_traffic():
    """wg-quick would make routes of AllowedIPs, and give the device an address if it were told one."""
    lines = conffile.render("mw0", "a1", CONFIG).splitlines()

    assert "Table = off" in lines
    assert not any(line.startswith("Address") for line in lines)


def test_a_peer_behind_nat_has_no_endpoint():
    """It is the one who initiates."""
    assert "Endpoint" not in conffile.render("mw0", "a1", replace(CONFIG, endpoint=None))
