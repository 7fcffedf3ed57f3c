"""Images of containers: what they run is in them, and is what the manifests expect."""

from __future__ import annotations

import pytest
import yaml

from scripts.packages.__main__ import IMAGES
from scripts.packages.image import PROCESSES
from scripts.talos_extension import oci
from scripts.talos_extension.products import KUBE
from tests.meta.tree import ROOT
from tests.support.oci_layout import unpack

BASE = ROOT / "kube" / "manifests" / "base"
MANIFESTS = {"image": "daemonset.yaml", "kube-image": "deployment.yaml"}


def container(kind):
    """The container that is made of an image."""
    document = yaml.safe_load((BASE / MANIFESTS[kind]).read_text(encoding="utf-8"))
    (found,) = document["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("kind", IMAGES)
def test_a_layout_says_what_its_product_runs(tmp_path, kind):
    """The configuration arrives as it stands here, beside the tree; the manifest names an image of that product."""
    product = IMAGES[kind]
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text(kind, encoding="ascii")
    archive = tmp_path / "image.tar"
    oci.write_image(archive, tmp_path / "tree", architecture="arm64", annotations={}, process=PROCESSES[product.name])

    assert PROCESSES[product.name] == unpack(archive, tmp_path / "unpacked")
    assert kind == (tmp_path / "unpacked/file").read_text(encoding="ascii")
    assert f"registry.example/{product.name}" == container(kind)["image"].partition(":")[0]


def test_what_talks_to_the_api_is_nobody_and_runs_its_own_command():
    """Its command is in the image, as is each folder where the Deployment mounts something."""
    process = PROCESSES[KUBE.name]
    mounts = {mount["mountPath"] for mount in container("kube-image")["volumeMounts"]}

    assert "65534:65534" == process["User"]
    assert [f"/usr/bin/{name}" for name in KUBE.commands] == process["Entrypoint"]
    assert mounts <= {f"/{folder}" for folder in KUBE.folders}


def test_the_lock_files_of_an_image_are_those_of_an_installation():
    """HTTP to the API is in one of them."""
    script = (ROOT / "scripts/install-kube").read_text(encoding="utf-8")
    names = {f"requirements/{path.name}" for path in KUBE.requirements}

    assert all(name in script for name in names)
    assert any("\nhttpx2==" in path.read_text(encoding="utf-8") for path in KUBE.requirements)
