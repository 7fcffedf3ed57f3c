"""What steers discovery is refused where it could not work, with what to write instead."""

from __future__ import annotations

import pytest

from meshwatchd.config.relations import check_relations
from meshwatchd.config.shape import ShapeError, shape
from meshwatchd.model.settings import Settings

DAEMON = {"node": "b3"}


def test_the_defaults_are_accepted():
    """Nothing has to be written for a mesh to be found."""
    assert [] == list(check_relations(shape({"daemon": DAEMON}, Settings)))


@pytest.mark.parametrize(
    ("discovery", "key", "word"),
    [
        ({"peers": ["10.2.0.11:18617"]}, "discovery.peers[0]", "no address"),
        ({"peers": ["10.2.0.11"] * 65}, "discovery.peers", "65 are listed"),
        ({"location": "my site"}, "discovery.location", "no name"),
        ({"standbys": 2}, "discovery.standbys", "out of range"),
        ({"forbid": ["a1", "b 3"]}, "discovery.forbid[1]", "no name"),
        ({"forbid": ["b3"]}, "discovery.forbid", "this node itself"),
        ({"endpoint": "198.51.100.21:51830"}, "discovery.endpoint", "has a port"),
        ({"source_uids": [1000, -1]}, "discovery.source_uids[1]", "out of range"),
        ({"forget": "1s"}, "discovery.forget", "out of range"),
    ],
)
def test_what_cannot_work_is_refused(discovery, key, word):
    """One finding, its key, and what is wrong."""
    try:
        (finding,) = check_relations(shape({"daemon": DAEMON, "discovery": discovery}, Settings))
    except ShapeError as error:
        finding = error.finding

    assert key == finding.key
    assert word in finding.problem
