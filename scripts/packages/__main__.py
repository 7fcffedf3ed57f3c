"""Build a package in build/packages.

usage: python -m scripts.packages deb|rpm|sysext|image|kube-image [--build FOLDER] [--suffix TEXT]
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.packages import bundle, deb, image, rpm, sysext
from scripts.talos_extension import debian
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON, KUBE

BUILD: Final = bundle.CHECKOUT / "build" / "packages"
MIB: Final = 1 << 20
IMAGES: Final = {"image": DAEMON, "kube-image": KUBE}
"""The kinds that are images, and the product of each."""
HOSTS: Final = ("deb", "rpm", "sysext")
"""The kinds that wrap a bundle."""


def main(argv: Sequence[str] | None = None) -> int:
    """Build one and tell its size; returns 0, or 1 where something is missing."""
    parser = argparse.ArgumentParser(prog="packages", description="Builds packages of meshwatchd.")
    parser.add_argument("kind", choices=(*HOSTS, *IMAGES))
    parser.add_argument("--build", type=Path, default=BUILD, help="where it is built (default: build/packages)")
    parser.add_argument("--suffix", default="", help="behind the version, as in 0.2.0+1")
    arguments = parser.parse_args(argv)
    began_s = time.monotonic()
    try:
        package = build(arguments.kind, arguments.build, arguments.suffix)
    except BuildError as error:
        sys.stderr.write(f"packages: {error}\n")
        return 1
    print(f"==> {package} ({package.stat().st_size / MIB:.1f} MiB, {time.monotonic() - began_s:.0f} s)")
    return 0


def build(kind: str, folder: Path, suffix: str = "") -> Path:
    """Build a package in a folder, which keeps what was fetched; returns the file.

    Raises:
        BuildError: a tool, a package or a library is missing.
    """
    if kind not in IMAGES:
        return build_for_hosts((kind,), folder, suffix)[kind]
    product = IMAGES[kind]
    recipe = bundle.recipe(folder, is_for_hosts=False, product=product)
    target = folder / f"{product.name}-image-{version(suffix)}.tar"
    tree = _empty(folder / kind)
    image.build(target, tree, recipe, version=version(suffix), architecture=debian.architecture())
    return target


def build_for_hosts(kinds: Sequence[str], folder: Path, suffix: str = "") -> dict[str, Path]:
    """Build packages of one bundle in a folder, which keeps what was fetched; returns the file of each.

    Raises:
        BuildError: as `build`.
    """
    recipe = bundle.recipe(folder, is_for_hosts=True)
    whole = _empty(folder / "bundle")
    libc = bundle.build(whole, recipe, version(suffix))
    targets = {}
    for kind in kinds:
        tree = folder / kind
        shutil.rmtree(tree, ignore_errors=True)
        shutil.copytree(whole, tree, symlinks=True)
        targets[kind] = wrap(kind, tree, version(suffix), libc)
    return targets


def wrap(kind: str, tree: Path, version: str, libc: str) -> Path:
    """Make a package of the tree of a bundle, which is added to; returns the file, beside the tree.

    Raises:
        BuildError: a tool is missing, or has failed.
    """
    architecture = debian.architecture()
    match kind:
        case "deb":
            target = tree.parent / f"meshwatchd_{version}_{architecture}.deb"
            deb.build(target, tree, version=version, architecture=architecture, libc=libc)
        case "rpm":
            target = tree.parent / rpm.file_name(version, architecture)
            rpm.build(target, tree, version=version, architecture=architecture, libc=libc)
        case _:
            # The file's name is the extension's, which extension-release has to repeat.
            target = tree.parent / "meshwatchd.raw"
            sysext.build(target, tree, architecture=architecture)
    return target


def version(suffix: str = "") -> str:
    """That of this checkout, with something behind it."""
    project = tomllib.loads((bundle.CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return f"{project['version']}{suffix}"


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
