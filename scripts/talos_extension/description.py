"""What Talos is told: talos/extension.toml as the two documents of the image."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Final, cast

Document = dict[str, object]

NAME: Final = "meshwatchd"
CONTAINERS: Final = "usr/local/etc/containers"
"""Where Talos reads descriptions of services, below the image's rootfs."""
CONTAINER: Final = f"usr/local/lib/containers/{NAME}"
"""The root of the service's container, likewise."""


def read(path: Path) -> tuple[Document, Document]:
    """The manifest, without its version, and the service."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return cast("Document", document["manifest"]), cast("Document", document["service"])


def write(source: Path, image: Path, *, version: str) -> None:
    """Put both into an image's root.

    Args:
        source: talos/extension.toml.
        image: the root; its rootfs exists.
        version: the daemon's.
    """
    manifest, service = read(source)
    metadata = cast("Document", manifest["metadata"])
    whole = {**manifest, "metadata": {**metadata, "version": version}}
    _put(image / "manifest.yaml", whole)
    _put(image / "rootfs" / CONTAINERS / f"{NAME}.yaml", service)


def _put(path: Path, document: Document) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
