"""The image of meshwatchd-kube, unpacked and run as it says itself: of the host it has the kernel and the network."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from meshwatchd import __version__
from meshwatchkube.main import EXIT_CONFIG, EXIT_OK
from netnslab.kube_api.objects import part, text
from netnslab.kube_api.resources import LEASES
from scripts.packages.__main__ import BUILD, build
from tests.support.kube import eventually, served
from tests.support.oci_layout import unpack

pytestmark = [pytest.mark.timeout(600)]

MOUNTED = "/etc/meshwatchd/kube"
"""Where the Deployment mounts its ConfigMap."""


class Image(NamedTuple):
    """What a container engine makes a container of.

    Attributes:
        root: its files.
        process: user, entry point and environment (image-spec: config).
    """

    root: Path
    process: Mapping[str, Any]

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start its entry point, as its user and in its root."""
        chroot = shutil.which("chroot")
        assert chroot is not None
        command = [chroot, f"--userspec={self.process['User']}", str(self.root), *self.process["Entrypoint"]]
        own = dict(each.split("=", 1) for each in self.process["Env"])
        return subprocess.Popen(
            [*command, *arguments], env=own | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Run its entry point to the end: status, output, errors."""
        with self.start(*arguments) as process:
            output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The image, unpacked; every user may reach it."""
    root = tmp_path_factory.mktemp("image")
    for folder in (root, *root.parents[:2]):
        folder.chmod(0o755)
    return Image(root, unpack(build("kube-image", BUILD), root))


@pytest.fixture
def api(image, tmp_path):
    """An API, and a configuration that leads there where the Deployment mounts one."""
    mounted = image.root / MOUNTED[1:]
    with served(tmp_path) as running:
        shutil.copyfile(running.kubeconfig, mounted / "kubeconfig")
        (mounted / "kube.toml").write_text(
            f'[daemon]\nread_interval = "200ms"\n[api]\nkubeconfig = "{MOUNTED}/kubeconfig"\n', encoding="utf-8"
        )
        yield running


def test_it_says_its_version_and_finds_its_own_configuration(image):
    """As nobody; the configuration inside is a pod's, and here is none."""
    assert "65534:65534" == image.process["User"]
    assert (EXIT_OK, f"meshwatchd-kube {__version__}\n", "") == image.run("--version")
    status, _, errors = image.run("--check")
    assert EXIT_CONFIG == status
    assert errors.startswith("the service account: cannot be used:"), errors


def test_the_configuration_of_a_deployment_is_checked(image, api):
    """Nothing is asked for that."""
    checked = image.run("--config", f"{MOUNTED}/kube.toml", "--check")

    assert (EXIT_OK, "", "") == checked
    assert not api.asked


def test_it_takes_the_lease_and_gives_it_back(image, api):
    """With the libraries of the image: HTTP, YAML and all."""
    with image.start("run", "--config", f"{MOUNTED}/kube.toml", NODE_NAME="a3") as process:
        try:
            eventually(lambda: api.asked["watch", "nodes"], "the watch, which the holder of the Lease has")
            lease = part(api.store.get(LEASES, "meshwatchd-kube", "kube-system"), "spec")
            (line,) = (
                line
                for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines()
                if line.startswith("Uid:")
            )
        finally:
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=20)

    assert text(lease, "holderIdentity").startswith("a3_")
    assert ["65534"] * 4 == line.split()[1:]
    assert EXIT_OK == process.returncode, log
    assert "holderIdentity" not in part(api.store.get(LEASES, "meshwatchd-kube", "kube-system"), "spec")


def test_the_image_holds_no_tool_of_development_and_nothing_that_others_may_write(image):
    """Nor the daemon's commands: its modules alone are asked for."""
    paths = sorted(image.root.rglob("*"))

    assert {"meshwatchd-kube", "python3", "python3.11"} >= {path.name for path in (image.root / "usr/bin").iterdir()}
    assert set() == {path.name for path in paths} & {"pip", "setuptools", "pytest", "netnslab", "mypy", "ensurepip"}
    assert [] == [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o002]
