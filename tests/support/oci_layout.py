"""Reads an OCI image layout of one layer, as a container engine does: by digests, from its index on."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def unpack(archive: Path, tree: Path) -> Mapping[str, Any]:
    """Unpack the layer into a folder; returns what a container of it runs (image-spec: config)."""
    with tarfile.open(archive) as layout:

        def fetch(name: str) -> bytes:
            stream = layout.extractfile(name)
            assert stream is not None
            return stream.read()

        def blob(descriptor: Mapping[str, str]) -> bytes:
            return fetch(f"blobs/{descriptor['digest'].replace(':', '/')}")

        (told,) = json.loads(fetch("index.json"))["manifests"]
        manifest = json.loads(blob(told))
        (layer,) = manifest["layers"]
        unpacked = gzip.decompress(blob(layer))
        config: Mapping[str, Any] = json.loads(blob(manifest["config"]))["config"]
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as content:
        # Debian 12's Python, 3.11.2, knows no filters: its archives are unpacked as they are, and this one is our own.
        content.extraction_filter = getattr(tarfile, "tar_filter", None)
        content.extractall(tree)
    return config
