"""A kind of mesh that a package of a third party brings, installed by pip, and others beside it that are broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

import meshwatchd
from netnslab import Lab
from netnslab.daemons import Daemons
from netnslab.waiting import wait_until
from tests.support.minimal_mesh import await_found, await_well

pytestmark = [pytest.mark.lab, pytest.mark.timeout(200)]

ROOT = Path(meshwatchd.__file__).parents[1]
SAMPLE = ROOT / "netns-lab/samples/hexmesh"
NODES = ("x1", "x2", "y1")

BROKEN = """from meshwatchd.profiles import MeshKind
NUMBER = 7
LATER = MeshKind(interface=2, look=print)
"""
OFFERS = {
    "broken-one": {"absent": "broken_one:NOTHING", "number": "broken_one:NUMBER", "twice": "broken_one:NUMBER"},
    "broken-two": {"later": "broken_two:LATER", "twice": "broken_two:NUMBER"},
}


def _package(folder, name, offers):
    """A package as setuptools takes it, with a module of the same name."""
    module = name.replace("-", "_")
    folder.mkdir()
    (folder / f"{module}.py").write_text(BROKEN, encoding="ascii")
    lines = [f'[project]\nname = "{name}"\nversion = "1.0"', '[project.entry-points."meshwatchd.profiles"]']
    lines += [f'{kind} = "{value}"' for kind, value in offers.items()]
    lines += [f'[tool.setuptools]\npy-modules = ["{module}"]\n']
    (folder / "pyproject.toml").write_text("\n".join(lines), encoding="ascii")
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of an environment where the packages are installed, which sees this one's packages as well."""
    base = tmp_path_factory.mktemp("third-party")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", base / "venv"], check=True)
    interpreter = base / "venv/bin/python"
    (site,) = (base / "venv/lib").glob("python*/site-packages")
    host = "\n".join([sysconfig.get_path("purelib"), str(ROOT), str(ROOT / "netns-lab")])
    (site / "host.pth").write_text(host + "\n", encoding="ascii")
    folders = [_package(base / name, name, offers) for name, offers in OFFERS.items()]
    folders.append(shutil.copytree(SAMPLE, base / "hexmesh"))
    pip = [sys.executable, "-m", "pip", "--python", interpreter, "install", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, *folders], check=True, capture_output=True)
    return str(interpreter)


@pytest.fixture(scope="module")
def mesh(python, tmp_path_factory):
    """Three daemons with the minimal configuration, and how long they took to find each other."""
    logs = tmp_path_factory.mktemp("hexmesh")
    with (
        Lab.up(str(SAMPLE / "topology.toml")) as lab,
        Daemons(lab, logs, config="minimal", python=python) as daemons,
    ):
        began = time.monotonic()
        wait_until(
            lambda: all(_knows_all(daemons.status(node)) for node in NODES), timeout_s=60, what="all to know all nodes"
        )
        yield lab, daemons, time.monotonic() - began, logs


def _knows_all(status):
    return status is not None and status["knowledge"]["nodes"] == len(NODES) == 1 + len(status["pairs"])


def test_a_mesh_of_a_third_party_is_recognised_and_probed(mesh):
    """By key and mode alone; its device is tun's, and no profile of ours has heard of it."""
    lab, daemons, took_s, _ = mesh
    for node, status in await_found(lab, daemons, pairs=2, took_s=took_s).items():
        assert {"self", "wireguard", "relay"} <= {_layer(session) for session in status["sessions"]}, node
        shown = daemons.control(node, "topology", "--why").stdout
        assert "; hexmesh\n" in shown, shown


def _layer(session):
    return {0: "self", 2: "wireguard", 5: "relay"}.get(session["layer"], session["layer"])


def test_those_that_cannot_be_used_are_named_with_place_and_remedy(mesh):
    """Once each, in the log and in `topology --why`; the others go on."""
    _, daemons, _, logs = mesh
    shown = daemons.control("x1", "topology", "--why").stdout
    log = (logs / "daemon-x1.log").read_text(encoding="utf-8")
    for text in (
        "profile absent (broken_one:NOTHING of broken-one 1.0 in ",
        "cannot be loaded: AttributeError",
        "is an object of type int; offer a meshwatchd.profiles.MeshKind",
        "is for interface 2 of profiles, and this is 1: install a version for it",
        "profile twice (broken_two:NUMBER of broken-two 1.0 in ",
        "2 packages offer this name, and none of them is used: remove all but one",
    ):
        assert text in log, text
        assert text in " ".join(shown.split()), text


def test_a_fault_of_it_is_named_at_its_node(mesh):
    """y1 loses the peer x1."""
    lab, daemons, _, _ = mesh
    await_well(lab, daemons, pairs=2)
    shown = lab.node("y1").run(["wg", "show", "hex0", "allowed-ips"], check=True).stdout
    key = next(line.split()[0] for line in shown.splitlines() if "10.66.0.0/24" in line)
    good = "/var/lib/meshwatchd/overlay-good.json"
    wait_until(lambda: lab.node("y1").run(["cat", good]).stdout, timeout_s=60, what="a good state", poll_s=1.0)
    lab.node("y1").run(["wg", "set", "hex0", "peer", key, "remove"], check=True)
    wait_until(
        lambda: (
            ("wireguard-peer-missing", "y1")
            in {(pair["verdict"]["fault"], pair["verdict"]["culprit"]) for pair in daemons.status("y1")["pairs"]}
        ),
        timeout_s=30,
        what="y1 to name it",
        poll_s=0.5,
    )
