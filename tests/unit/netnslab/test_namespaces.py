"""Commands that enter namespaces."""

from pathlib import Path

import pytest

from netnslab.namespaces import NETWORK_ONLY, NODE_KINDS, Space

ENTER_B3 = ["nsenter", "--net=/pins/b3.net", "--mount=/pins/b3.mnt", "--uts=/pins/b3.uts", "--"]
GO_BACK = ["env", f"--chdir={Path.cwd()}"]


@pytest.mark.parametrize(("root", "return_to_root"), [("/", []), ("/srv/root", ["chroot", "/srv/root"])])
def test_a_node_is_entered_with_all_its_namespaces_the_root_and_the_working_directory(
    monkeypatch, root, return_to_root
):
    """A mount namespace resets both directories, so they are set again; the tests themselves may run in a chroot."""
    monkeypatch.setattr("netnslab.namespaces.own_root", lambda: root)
    space = Space(name="b3", directory=Path("/pins"), kinds=NODE_KINDS)

    assert [*ENTER_B3, *return_to_root, *GO_BACK, "hostname"] == space.command(["hostname"])


def test_a_pod_is_a_network():
    """Its name has a slash, its file has none."""
    space = Space(name="pod/b3", directory=Path("/pins"), kinds=NETWORK_ONLY)

    assert ["nsenter", "--net=/pins/pod-b3.net", "--", "true"] == space.command(["true"])
