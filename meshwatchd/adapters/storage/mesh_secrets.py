"""The mesh's keys, from the files that the configuration names."""

from __future__ import annotations

from pathlib import Path

from meshwatchd.config.keys import read_mesh_key
from meshwatchd.model.settings import AuthSettings
from meshwatchd.wire.auth import KeyRole, MeshSecret


def read_secrets(auth: AuthSettings) -> tuple[MeshSecret, ...]:
    """The mesh keys in the files: one to sign with, and in a rotation one more to believe.

    Raises:
        ConfigError: a key is missing, unreadable, open to others, or no key.
    """
    signing = MeshSecret(secret=read_mesh_key(Path(auth.key_file)))
    if not auth.accepted_key_file:
        return (signing,)
    accepted = read_mesh_key(Path(auth.accepted_key_file), key="auth.accepted_key_file")
    return signing, MeshSecret(secret=accepted, role=KeyRole.RECEIVE_ONLY)
