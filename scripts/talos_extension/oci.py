"""Writes an OCI image layout as one tar file, the same bytes for the same tree (image-spec v1.1: image-layout, config).

oci-layout
index.json               -> manifest, with its platform
blobs/sha256/DIGEST      manifest -> config, one layer (tar+gzip)
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

MTIME: Final = 0
"""Of every file: seconds since 1970. Compiled modules are not checked against it."""
DIRECTORY_MODE: Final = 0o755
PROGRAM_MODE: Final = 0o755
FILE_MODE: Final = 0o644
LEVEL: Final = 6
"""Of compression: the highest takes four times as long for 1 %, and Talos unpacks it to pack it anew."""

_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"

Document = dict[str, object]


def to_json(document: object) -> bytes:
    """JSON as it is digested: sorted, compact, with a line's end."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def pack_tree(tree: Path) -> bytes:
    """All that is below a folder as a tar: sorted, of root, without times.

    Args:
        tree: its files, folders and symbolic links; anything else is refused.

    Raises:
        ValueError: there is a device, a pipe or a socket, which Talos would refuse.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            entry = _entry(path, path.relative_to(tree).as_posix())
            if entry.isreg():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
    return packed.getvalue()


def _entry(path: Path, name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mtime = MTIME
    if path.is_symlink():
        entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
    elif path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, DIRECTORY_MODE
    elif path.is_file():
        status = path.stat()
        entry.size = status.st_size
        entry.mode = PROGRAM_MODE if status.st_mode & 0o111 else FILE_MODE
    else:
        raise ValueError(f"{path} is no file, folder or link")
    return entry


def write_image(
    target: Path, tree: Path, *, architecture: str, annotations: Mapping[str, str], process: Document | None = None
) -> int:
    """Write an image of one layer that holds a tree; returns the file's size in bytes.

    Args:
        target: the tar file; its folder exists.
        tree: becomes the image's root.
        architecture: as Go and Debian call it: amd64, arm64.
        annotations: of the manifest, by their OCI keys.
        process: what a container of it runs (image-spec: config); Talos' extensions run nothing.
    """
    unpacked = pack_tree(tree)
    layer = _compress(unpacked)
    platform: Document = {"architecture": architecture, "os": "linux"}
    config = to_json(
        {
            **platform,
            "config": process or {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(unpacked)]},
        }
    )
    manifest = to_json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config),
            "layers": [_descriptor(_LAYER, layer)],
            "annotations": dict(annotations),
        }
    )
    index = {
        "schemaVersion": 2,
        "mediaType": _INDEX,
        "manifests": [{**_descriptor(_MANIFEST, manifest), "platform": platform}],
    }
    files = {"oci-layout": to_json({"imageLayoutVersion": "1.0.0"}), "index.json": to_json(index)}
    files |= {f"blobs/sha256/{_hex(blob)}": blob for blob in (config, layer, manifest)}
    draft = target.with_name(f".{target.name}.new")
    draft.write_bytes(_archive(files))
    draft.replace(target)
    return target.stat().st_size


def _archive(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("blobs", "blobs/sha256"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode, folder.mtime = tarfile.DIRTYPE, DIRECTORY_MODE, MTIME
            archive.addfile(folder)
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode, entry.mtime = len(content), FILE_MODE, MTIME
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _compress(data: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=LEVEL, mtime=MTIME) as stream:
        stream.write(data)
    return packed.getvalue()


def _descriptor(media_type: str, blob: bytes) -> Document:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{_hex(blob)}"


def _hex(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()
