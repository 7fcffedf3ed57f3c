"""How services of known kinds are tried."""

from __future__ import annotations

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.connect import Knock
from meshwatchd.cli.service_presets import PRESETS


def test_istios_gateway_is_asked_for_the_port_of_the_service():
    """By SNI and ALPN, as a sidecar does; its health has a port of its own."""
    name = "outbound_.8000_._.shop.default.svc.cluster.local"
    expected = (Knock(15443, TlsWish(name, "istio")), Knock(15021, path="/healthz/ready"))
    assert expected == _knocks("istio-eastwest", 8000, "")
    assert "outbound_.80_._.shop.default.svc.cluster.local" == _sni("istio-eastwest", 0, "")
    assert "x.example" == _sni("istio-eastwest", 8000, "x.example")


def _knocks(preset, port, sni):
    make = PRESETS[preset].knocks
    assert make is not None
    return make("shop.default", port, sni)


def _sni(preset, port, sni):
    wish = _knocks(preset, port, sni)[0].tls
    assert wish is not None
    return wish.sni


def test_linkerds_gateway_is_asked_by_its_identity():
    """4191 says that it lives, 4143 whether it is trusted."""
    first, second = _knocks("linkerd-gateway", 0, "")
    assert first.tls is not None
    assert (4143, "transport.l5d.io/v1") == (first.port, first.tls.alpn)
    assert first.tls.sni.endswith(".serviceaccount.identity.linkerd.cluster.local")
    assert Knock(4191, path="/ready") == second
    assert "id.example" == _sni("linkerd-gateway", 0, "id.example")


def test_kinds_of_dns_servers_say_what_answers_mean():
    """And try what the API says, or what is given; every kind has a sentence."""
    for name in ("submariner-lighthouse", "coredns-multicluster"):
        assert PRESETS[name].knocks is None
    assert all(preset.note for preset in PRESETS.values())
