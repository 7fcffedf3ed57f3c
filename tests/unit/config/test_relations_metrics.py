"""Where figures go is checked before anything starts."""

from __future__ import annotations

import pytest

from meshwatchd.config.relations import check_relations
from meshwatchd.config.shape import ShapeError, shape
from meshwatchd.model.settings import Settings


@pytest.mark.parametrize("listen", ["", "127.0.0.1:9469", "[::1]:9469", "0.0.0.0:1"])
def test_addresses_with_a_port_are_taken(listen):
    """IPv6 in brackets; nothing for no server."""
    assert [] == list(check_relations(shape({"daemon": {"node": "b3"}, "metrics": {"listen": listen}}, Settings)))


@pytest.mark.parametrize("listen", ["9469", ":9469", "localhost:9469", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000"])
def test_anything_else_is_refused_with_an_example(listen):
    """A name would have to be resolved, by whom?"""
    (found,) = check_relations(shape({"daemon": {"node": "b3"}, "metrics": {"listen": listen}}, Settings))

    assert ("metrics.listen", True) == (found.key, "127.0.0.1:9469" in found.remedy)


@pytest.mark.parametrize("textfile", ["/var/lib/x/m.txt", "m.prom", "/x.prom\0"])
def test_a_textfile_has_the_suffix_that_is_read(textfile):
    """node_exporter ignores every other file, and a relative one is nobody's."""
    assert "/x/m.prom" == shape({"metrics": {"textfile": "/x/m.prom"}}, Settings).metrics.textfile
    with pytest.raises(ShapeError) as caught:
        shape({"metrics": {"textfile": textfile}}, Settings)
    assert "metrics.textfile" == caught.value.finding.key
