"""Commands that enter namespaces."""

from pathlib import Path

from netnslab.namespaces import NETWORK_ONLY, NODE_KINDS, Space


def test_a_node_is_entered_with_all_its_namespaces_and_the_working_directory():
    """A mount namespace resets the directory, so it is set again."""
    space = Space(name="b3", directory=Path("/pins"), kinds=NODE_KINDS)

    assert [
        "nsenter",
        "--net=/pins/b3.net",
        "--mount=/pins/b3.mnt",
        "--uts=/pins/b3.uts",
        "--",
        "env",
        f"--chdir={Path.cwd()}",
        "hostname",
    ] == space.command(["hostname"])


def test_a_pod_is_a_network():
    """Its name has a slash, its file has none."""
    space = Space(name="pod/b3", directory=Path("/pins"), kinds=NETWORK_ONLY)

    assert ["nsenter", "--net=/pins/pod-b3.net", "--", "true"] == space.command(["true"])
