"""Where figures go is checked before anything starts."""

from __future__ import annotations

import pytest

from meshwatchd.config.check_metrics import check_metrics
from meshwatchd.model.settings import MetricsSettings


@pytest.mark.parametrize("listen", ["", "127.0.0.1:9469", "[::1]:9469", "0.0.0.0:1"])
def test_addresses_with_a_port_are_taken(listen):
    """IPv6 in brackets; nothing for no server."""
    assert [] == list(check_metrics(MetricsSettings(listen=listen)))


@pytest.mark.parametrize("listen", ["9469", ":9469", "localhost:9469", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000"])
def test_anything_else_is_refused_with_an_example(listen):
    """A name would have to be resolved, by whom?"""
    (found,) = check_metrics(MetricsSettings(listen=listen))

    assert ("metrics.listen", True) == (found.key, "127.0.0.1:9469" in found.remedy)


def test_a_textfile_has_the_suffix_that_is_read(tmp_path):
    """node_exporter ignores every other file."""
    assert [] == list(check_metrics(MetricsSettings(textfile="/var/lib/x/meshwatchd.prom")))
    assert ["metrics.textfile"] == [each.key for each in check_metrics(MetricsSettings(textfile="/var/lib/x/m.txt"))]
    assert ["metrics.textfile"] == [each.key for each in check_metrics(MetricsSettings(textfile="m.prom"))]
