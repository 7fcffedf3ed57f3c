"""Names by which gateways know services."""

from __future__ import annotations

import pytest

from meshwatchd.model.gateways import istio_sni


@pytest.mark.parametrize(("port", "expected"), [(8000, "outbound_.8000_._."), (0, "outbound_.80_._.")])
def test_istio_has_the_port_in_the_server_name(port, expected):
    """That of HTTP where none is given."""
    assert f"{expected}shop.default.svc.cluster.local" == istio_sni("shop.default", port)
