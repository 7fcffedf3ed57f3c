"""The Talos extension, unpacked from its image and run on a node as its description says, without anything of the host.

What plays Talos is `tests.support.talos_service`; no Talos is involved.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from netnslab import Lab, marks
from netnslab.daemons import Daemons, is_ready
from netnslab.waiting import wait_until
from scripts.talos_extension import __main__ as extension
from scripts.talos_extension import debian, description
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON
from tests.support.oci_layout import unpack
from tests.support.stage import READY_S
from tests.support.talos_config import EXAMPLE, PLACEHOLDER, read_files

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

NODE = "b3"
OTHERS = ("a1", "a2", "a3", "b1", "b2")
HANG_S = 30.0
KILLED = 128 + signal.SIGKILL

# What is looked at from the inside: every module, all mounts, what can be written, and how the keys lie.
INSIDE = """
import importlib, json, os, pkgutil
import meshwatchd
def is_writable(folder):
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError:
        return False
    return True
names = [each.name for each in pkgutil.walk_packages(meshwatchd.__path__, "meshwatchd.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(json.dumps({
    "modules": len(names),
    "mounts": sorted({line.split()[4] for line in open("/proc/self/mountinfo")}),
    "writable": [folder for folder in ("/", "/usr/lib", "/etc/meshwatchd", "/tmp", "/var/lib/meshwatchd",
                                       "/run/meshwatchd", "/run/flannel") if is_writable(folder)],
    "modes": {name: oct(os.stat(name).st_mode & 0o777) for name in ("/etc/meshwatchd/given/mesh.key",
                                                                     "/etc/meshwatchd/mesh.key")},
    "can_set": os.access("/proc/sys/net/ipv4/conf/all/rp_filter", os.W_OK),
}))
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """The extension's tree, as Talos unpacks it: the layer of the image that the build has written."""
    try:
        debian.require_tools()
    except BuildError as error:
        pytest.skip(str(error))
    archive = extension.build(extension.BUILD)
    tree = tmp_path_factory.mktemp("talos")
    unpack(archive, tree)
    return tree


@pytest.fixture(scope="module")
def lab():
    """A mesh with daemons on all nodes but one."""
    with Lab.up("kilo-flannel") as mesh:
        yield mesh


class Service:
    """The extension's service on a node."""

    def __init__(self, place, image, folder):
        self._place = place
        self.described = json.loads((image / "rootfs" / description.CONTAINERS / "meshwatchd.yaml").read_bytes())
        self.root = image / "rootfs" / description.CONTAINER
        key = place.run(["cat", "/etc/meshwatchd/mesh.key"], check=True).stdout.strip()
        document = EXAMPLE.read_text(encoding="utf-8").replace(PLACEHOLDER, key)
        files = read_files(document.replace('mode = "observe"', 'mode = "enforce"'))
        self.files = {str(path): str(self._write(folder, path, text)) for path, text in files.items()}
        self._spec = folder / "spec.json"
        spec = {"root": str(self.root), "service": self.described, "files": self.files}
        self._spec.write_text(json.dumps(spec), encoding="utf-8")
        self.log = folder / "service.log"

    @staticmethod
    def _write(folder, path, text):
        """As Talos writes configuration files: readable by everybody."""
        target = folder / str(path).strip("/").replace("/", "-")
        target.write_text(text, encoding="utf-8")
        target.chmod(0o644)
        return target

    @contextlib.contextmanager
    def running(self):
        """The process that stands for Talos, while the service runs; what is left of it is ended."""
        with self.log.open("a") as log:
            talos = self._place.popen(
                [sys.executable, "-m", "tests.support.talos_service", str(self._spec)],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            try:
                yield talos
            finally:
                talos.kill()
                talos.wait()

    def call(self, talos, *command):
        """Run a program of the image in the container, as a privileged pod does with nsenter."""
        (first,) = children(talos.pid)
        entering = ["nsenter", "--target", str(first), "--mount", "--pid", "--net", "--", *command]
        return subprocess.run(entering, env={}, capture_output=True, text=True, timeout=60, check=False)

    def status(self, talos):
        """What `meshwatchctl --json status` says; None while there is nobody to ask."""
        if not children(talos.pid):
            return None
        asked = self.call(talos, "/usr/bin/meshwatchctl", "--json", "status")
        return json.loads(asked.stdout) if asked.stdout else None


def children(pid):
    """The children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]


def test_every_module_is_compiled_for_good(image):
    """The root cannot be written to, and times of files are not kept: no module is compared with its source's."""
    compiled = sorted((image / "rootfs" / description.CONTAINER).rglob("*.pyc"))

    assert len(compiled) > 1000
    # PEP 552: the second word's lowest bit says that a hash follows, the next one whether it is looked at.
    assert {1} == {struct.unpack_from("<4xI", path.read_bytes())[0] for path in compiled}


def test_the_image_holds_what_talos_allows_and_no_tool_of_development(image):
    """Everything lies below /usr/local, no file is special or open to be written by others."""
    paths = sorted((image / "rootfs").rglob("*"))
    names = {path.name for path in paths}

    assert {"manifest.yaml", "rootfs"} == {path.name for path in image.iterdir()}
    assert ["usr"] == [path.name for path in (image / "rootfs").iterdir()]
    assert ["local"] == [path.name for path in (image / "rootfs/usr").iterdir()]
    assert all(path.is_symlink() or path.is_dir() or path.is_file() for path in paths)
    assert [] == [path for path in paths if not path.is_symlink() and path.stat().st_mode & 0o002]
    assert set() == names & {"pip", "setuptools", "pytest", "netnslab", "mypy", "ensurepip"}
    assert set(DAEMON.commands) <= names


def test_a_node_of_talos_takes_part_in_the_mesh(lab, image, tmp_path):
    """Ready among daemons that were installed otherwise; from the inside there is nothing but the image and its mounts.

    It makes its rules, answers meshwatchctl, bisects, and when its engine hangs it is ended and its rules stay.
    """
    place = lab.node(NODE)
    service = Service(place, image, tmp_path)
    with Daemons(lab, tmp_path, nodes=OTHERS, config="minimal"), service.running() as talos:
        wait_until(
            lambda: talos.poll() is not None or is_ready(service.status(talos)),
            timeout_s=READY_S,
            what="the service to be ready",
            poll_s=0.5,
        )
        assert talos.poll() is None, service.log.read_text(encoding="utf-8")
        shown = service.call(talos, "/usr/bin/meshwatchctl", "status")
        seen = json.loads(service.call(talos, "/usr/bin/python3", "-c", INSIDE).stdout)
        bisected = service.call(talos, "/usr/bin/meshwatchctl", "bisect", "b2")
        standing = marks.marked(place)
        (first,) = children(talos.pid)
        (engine,) = children(first)
        os.kill(engine, signal.SIGSTOP)
        ended = talos.wait(HANG_S)

    assert (0, "") == (shown.returncode, shown.stderr)
    assert NODE in shown.stdout
    assert 0 == bisected.returncode, bisected.stdout + bisected.stderr
    assert seen["modules"] > 150
    assert ["/run/meshwatchd", "/var/lib/meshwatchd"] == sorted(seen["writable"])
    assert {"/etc/meshwatchd/given/mesh.key": "0o644", "/etc/meshwatchd/mesh.key": "0o400"} == seen["modes"]
    assert seen["can_set"]
    described = {mount["destination"] for mount in service.described["container"]["mounts"]} | set(service.files)
    ours = {path for path in seen["mounts"] if not path.startswith(("/dev", "/proc", "/sys"))}
    assert {"/", "/run", "/etc/hosts", "/etc/resolv.conf"} | described == ours
    assert standing
    assert KILLED == ended
    assert "watchdog.expired" in service.log.read_text(encoding="utf-8")
    assert standing == marks.marked(place)


def test_the_end_of_the_service_is_in_good_order(lab, image, tmp_path):
    """SIGTERM, as from Talos before a restart, ends it with status 0."""
    service = Service(lab.node(NODE), image, tmp_path)
    with service.running() as talos:
        wait_until(lambda: service.status(talos), timeout_s=READY_S, what="an answer", poll_s=0.3)
        talos.terminate()

        assert 0 == talos.wait(HANG_S), service.log.read_text(encoding="utf-8")
