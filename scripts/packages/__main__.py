"""Build a package in build/packages.

usage: python -m scripts.packages deb|sysext|image|kube-image [--build FOLDER] [--suffix TEXT]
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

from scripts.packages import bundle, deb, image, sysext
from scripts.talos_extension import debian
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON, KUBE

BUILD: Final = bundle.CHECKOUT / "build" / "packages"
MIB: Final = 1 << 20
IMAGES: Final = {"image": DAEMON, "kube-image": KUBE}
"""The kinds that are images, and the product of each."""


def main(argv: Sequence[str] | None = None) -> int:
    """Build one and tell its size; returns 0, or 1 where something is missing."""
    parser = argparse.ArgumentParser(prog="packages", description="Builds packages of meshwatchd.")
    parser.add_argument("kind", choices=("deb", "sysext", *IMAGES))
    parser.add_argument("--build", type=Path, default=BUILD, help="where it is built (default: build/packages)")
    parser.add_argument("--suffix", default="", help="behind the version, as in 0.1.0+1")
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
    project = tomllib.loads((bundle.CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version, architecture = project["version"] + suffix, debian.architecture()
    product = IMAGES.get(kind, DAEMON)
    recipe = bundle.recipe(folder, is_for_hosts=kind not in IMAGES, product=product)
    tree = folder / kind
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    if kind in IMAGES:
        target = folder / f"{product.name}-image-{version}.tar"
        image.build(target, tree, recipe, version=version, architecture=architecture)
        return target
    libc = bundle.build(tree, recipe, version)
    if kind == "sysext":
        # The file's name is the extension's, which extension-release has to repeat.
        target = folder / "meshwatchd.raw"
        sysext.build(target, tree, architecture=architecture)
    else:
        target = folder / f"meshwatchd_{version}_{architecture}.deb"
        deb.build(target, tree, version=version, architecture=architecture, libc=libc)
    return target


if __name__ == "__main__":
    sys.exit(main())
