"""What whoever has broken into a node of the lab has in hand: its mesh key, its own seed, and what it remembers."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path
from typing import Any

from meshwatchd.adapters.identity import FILE_NAME, read_binding
from meshwatchd.adapters.storage import mesh_file
from meshwatchd.wire.auth import MeshKeys, MeshSecret, PairKey
from netnslab.waiting import wait_until

SAVED_S = 30
"""A daemon writes down what it knows five seconds after its start (`discovery.SAVE_GAP_NS`)."""


def stolen_key(lab: Any, node: str, peer: str) -> PairKey:
    """The key with which a node of the lab signs its probes to a peer at this moment."""

    def read(path: str) -> str:
        return wait_until(
            lambda: str(lab.node(node).run(["cat", path]).stdout), timeout_s=SAVED_S, what=f"{path} on {node}"
        )

    keys = MeshKeys(node, [MeshSecret(secret=base64.b64decode(read("/etc/meshwatchd/mesh.key")))])
    with tempfile.TemporaryDirectory() as name:
        for file in (FILE_NAME, mesh_file.FILE_NAME):
            copy = Path(name) / file
            copy.touch(mode=0o600)
            copy.write_text(read(f"/var/lib/meshwatchd/{file}"), encoding="utf-8")
        keys.bind(read_binding(Path(name), node, peer))
    return keys.add_peer(peer)
