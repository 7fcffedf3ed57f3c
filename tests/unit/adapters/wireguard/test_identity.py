import base64
import stat

import pytest

from meshwatchd.adapters.wireguard.identity import clamp, find_private_key, load_private_key, public_key
from meshwatchd.model.errors import ConfigError

# RFC 7748: section 5.2, one iteration from the base point, and section 6.1, Bob's key pair.
VECTORS = [
    ("09" + "00" * 31, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"),
    (
        "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
        "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
    ),
]


def to_base64(digits):
    """Hexadecimal digits as WireGuard writes keys."""
    return base64.b64encode(bytes.fromhex(digits)).decode()


@pytest.mark.parametrize(("private", "public"), VECTORS)
def test_public_keys_are_those_of_the_standard(private, public):
    """`private` is an input of X25519 with the base point, and is clamped by it."""
    assert to_base64(public) == public_key(to_base64(private))


def test_a_missing_key_is_made_once_and_kept_private(tmp_path):
    """The first start makes it, every later one reads it."""
    path = tmp_path / "state" / "standby.key"

    made = load_private_key(path)

    assert made == load_private_key(path)
    assert 0o600 == stat.S_IMODE(path.stat().st_mode)
    assert base64.b64decode(made) == clamp(base64.b64decode(made))


def test_looking_for_a_key_makes_none(tmp_path):
    """Questions about ownership leave no trace."""
    assert find_private_key(tmp_path / "standby.key") is None
    assert [] == list(tmp_path.iterdir())


def test_a_key_is_read_as_devices_report_it(tmp_path):
    """Devices set the fixed bits of whatever they are given; otherwise equal keys would look different."""
    path = tmp_path / "standby.key"
    path.write_text(base64.b64encode(b"\xff" * 32).decode() + "\n")
    path.chmod(0o600)

    key = base64.b64decode(load_private_key(path))

    assert (248, 127) == (key[0], key[31])


def test_a_key_that_others_may_read_is_refused(tmp_path):
    """The message names the file."""
    path = tmp_path / "standby.key"
    path.write_text(base64.b64encode(bytes(32)).decode())
    path.chmod(0o644)

    with pytest.raises(ConfigError, match=r"standby\.private_key_file"):
        load_private_key(path)
