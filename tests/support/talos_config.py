"""The files in an ExtensionServiceConfig, as Talos takes them out of it: enough YAML for literal blocks."""

from __future__ import annotations

from pathlib import Path

from tests.meta.tree import ROOT

EXAMPLE = ROOT / "talos" / "extension-service-config.yaml"
PLACEHOLDER = "REPLACE-BY-THE-44-CHARACTERS-OF-YOUR-KEY"

_PATH, _CONTENT, _INDENT = "  - mountPath: ", "    content: |", " " * 6


def read_files(document: str) -> dict[Path, str]:
    """Each file's content by the path it is mounted at."""
    files: dict[Path, str] = {}
    path, is_content = None, False
    for line in document.splitlines():
        if line.startswith(_PATH):
            path, is_content = Path(line.removeprefix(_PATH)), False
        elif line == _CONTENT and path is not None:
            is_content = True
            files[path] = ""
        elif is_content and path is not None and (line.startswith(_INDENT) or not line):
            files[path] += line.removeprefix(_INDENT) + "\n"
        else:
            is_content = False
    return files
