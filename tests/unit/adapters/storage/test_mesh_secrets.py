"""The mesh's keys, from their files."""

from __future__ import annotations

import base64

import msgspec

from meshwatchd.adapters.storage.mesh_secrets import read_secrets
from meshwatchd.model.settings import AuthSettings
from meshwatchd.wire.auth import KeyRole, MeshSecret


def test_keys_are_those_of_the_files(tmp_path):
    """One to sign with, and in a rotation one more to believe."""
    first, second = tmp_path / "mesh.key", tmp_path / "second.key"
    for file, secret in ((first, bytes(range(32))), (second, bytes(32))):
        file.write_bytes(base64.b64encode(secret))
        file.chmod(0o600)
    auth = AuthSettings(key_file=str(first))
    both = read_secrets(msgspec.structs.replace(auth, accepted_key_file=str(second)))

    assert (MeshSecret(secret=bytes(range(32))), MeshSecret(secret=bytes(32), role=KeyRole.RECEIVE_ONLY)) == both
    assert both[:1] == read_secrets(auth)
