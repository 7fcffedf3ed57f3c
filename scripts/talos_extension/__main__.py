"""Build the Talos system extension: build/talos/meshwatchd-extension-VERSION.tar, an OCI image layout.

usage: python -m scripts.talos_extension [--build FOLDER]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.talos_extension import debian, description, oci, rootfs
from scripts.talos_extension.errors import BuildError

CHECKOUT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = CHECKOUT / "build" / "talos"
MIB: Final = 1 << 20


def main(argv: Sequence[str] | None = None) -> int:
    """Build it and tell its size; returns 0, or 1 where something is missing."""
    parser = argparse.ArgumentParser(prog="talos-extension", description="Builds meshwatchd's extension of Talos.")
    parser.add_argument("--build", type=Path, default=BUILD, help="where it is built (default: build/talos)")
    arguments = parser.parse_args(argv)
    began_s = time.monotonic()
    try:
        image = build(arguments.build)
    except BuildError as error:
        sys.stderr.write(f"talos-extension: {error}\n")
        return 1
    print(f"==> {image} ({image.stat().st_size / MIB:.1f} MiB, {time.monotonic() - began_s:.0f} s)")
    return 0


def build(folder: Path) -> Path:
    """Build the image in a folder, which keeps what was fetched; returns the tar file.

    Raises:
        BuildError: a tool, a package or a library is missing.
    """
    debian.require_tools()
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    tree = folder / "image"
    shutil.rmtree(tree, ignore_errors=True)
    root = tree / "rootfs" / description.CONTAINER
    root.mkdir(parents=True)
    recipe = rootfs.Recipe(
        packages=debian.Packages(folder / "packages"),
        python=debian.python_minor(),
        wheels=_wheel(folder / "wheel"),
    )
    print(f"==> Python {recipe.python} and its libraries, locked packages, meshwatchd {version}")
    versions = rootfs.build(root, recipe)
    print("    " + ", ".join(f"{name} {version}" for name, version in versions.items()))
    description.write(CHECKOUT / "talos" / "extension.toml", tree, version=version)
    image = folder / f"meshwatchd-extension-{version}.tar"
    annotations = {"org.opencontainers.image.title": description.NAME, "org.opencontainers.image.version": version}
    oci.write_image(image, tree, architecture=debian.architecture(), annotations=annotations)
    return image


def _wheel(folder: Path) -> Path:
    # setuptools would take modules along that are gone since it was last here.
    for stale in (folder, CHECKOUT / "build" / "lib", *(CHECKOUT / "build").glob("bdist.*")):
        shutil.rmtree(stale, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(folder), str(CHECKOUT)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BuildError(f"pip could not build the daemon's wheel; run: make venv: {ran.stderr.strip()}")
    return folder


if __name__ == "__main__":
    sys.exit(main())
