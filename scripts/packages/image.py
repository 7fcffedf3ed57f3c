"""An image for containers: the root of a product, and what a container of it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from scripts.talos_extension import oci, rootfs
from scripts.talos_extension.products import DAEMON, KUBE, NOBODY

ENVIRONMENT: Final = ["PATH=/usr/bin:/bin", "HOME=/", "PYTHONDONTWRITEBYTECODE=1"]
PROCESSES: Final[dict[str, oci.Document]] = {
    # Process 1 of a container copies keys, feeds the watchdog and passes signals on (meshwatchd/runtime/container.py).
    DAEMON.name: {"Entrypoint": ["/usr/bin/python3", "-P", "-m", "meshwatchd.runtime.container"], "Env": ENVIRONMENT},
    KUBE.name: {"Entrypoint": ["/usr/bin/meshwatchd-kube"], "Env": ENVIRONMENT, "User": f"{NOBODY}:{NOBODY}"},
}
"""What is run of each product (image-spec: config)."""


def build(target: Path, tree: Path, recipe: rootfs.Recipe, *, version: str, architecture: str) -> None:
    """Make the root of a product in an empty folder, and an OCI image layout of it.

    Raises:
        BuildError: something cannot be fetched, or a library is missing.
    """
    rootfs.build(tree, recipe)
    name = recipe.product.name
    annotations = {"org.opencontainers.image.title": name, "org.opencontainers.image.version": version}
    oci.write_image(target, tree, architecture=architecture, annotations=annotations, process=PROCESSES[name])
