"""What steers discovery is refused where it could not work, with what to write instead."""

from __future__ import annotations

import pytest

from meshwatchd.config.check_discovery import check_discovery
from meshwatchd.model.settings import DaemonSettings, DiscoverySettings, Settings

DAEMON = DaemonSettings(node="b3")


def test_the_defaults_are_accepted():
    """Nothing has to be written for a mesh to be found."""
    assert [] == list(check_discovery(Settings(daemon=DAEMON)))


@pytest.mark.parametrize(
    ("discovery", "key", "word"),
    [
        (DiscoverySettings(peers=("10.2.0.11:18617",)), "discovery.peers[0]", "no address"),
        (DiscoverySettings(peers=("10.2.0.11",) * 65), "discovery.peers", "65 addresses"),
        (DiscoverySettings(location="my site"), "discovery.location", "no name"),
        (DiscoverySettings(standbys=2), "discovery.standbys", "out of range"),
        (DiscoverySettings(forbid=("a1", "b 3")), "discovery.forbid[1]", "no name"),
        (DiscoverySettings(forbid=("b3",)), "discovery.forbid", "this node itself"),
        (DiscoverySettings(endpoint="198.51.100.21:51830"), "discovery.endpoint", "has a port"),
        (DiscoverySettings(source_uids=(1000, -1)), "discovery.source_uids[1]", "out of range"),
        (DiscoverySettings(forget="1s"), "discovery.forget", "out of range"),
    ],
)
def test_what_cannot_work_is_refused(discovery, key, word):
    """One finding, its key, and what is wrong."""
    (finding,) = check_discovery(Settings(daemon=DAEMON, discovery=discovery))

    assert key == finding.key
    assert word in finding.problem
