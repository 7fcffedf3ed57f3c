"""What is installed on nodes holds the daemon and nothing that breaks meshes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.meta.tree import ROOT


@pytest.mark.parametrize(
    ("source", "packages"),
    [(".", {"meshwatchd"}), ("netns-lab", {"netnslab", "enginerig"}), ("kube", {"meshwatchkube"})],
    ids=["daemon", "lab", "kube"],
)
def test_a_wheel_holds_its_own_packages_alone(tmp_path, source, packages):
    """The laboratory and what talks to Kubernetes are distributions of their own."""
    copy = tmp_path / "source"
    ignored = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__", "tests")
    shutil.copytree(ROOT / source, copy, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*command, "--wheel-dir", tmp_path / "wheels", copy], check=True)
    (wheel,) = (tmp_path / "wheels").iterdir()
    names = zipfile.ZipFile(wheel).namelist()

    assert packages == {name.split("/")[0] for name in names if not re.match(r"[^/]+\.dist-info/", name)}
    assert ("netns-lab" == source) == any(name.endswith(".toml") for name in names)


def test_installing_takes_no_development_environment():
    """188 MB of it were built on each node first."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    for target in ("install", "uninstall", "install-kube", "uninstall-kube", "wheelhouse"):
        (rule,) = re.findall(rf"^{target}:(.*?)##", makefile, re.MULTILINE)
        assert "venv" not in rule
