"""Shorthand for canaries of known gateways and DNS servers."""

from __future__ import annotations

import pytest

from meshwatchd.config.canary_presets import PRESETS, write_out
from meshwatchd.config.dump import dump_effective
from meshwatchd.config.load import load
from meshwatchd.config.shape import ShapeError
from meshwatchd.model.canary import CanaryKind

PROBE = "[probe]\nport = 18618"
PLACE = 'address = "192.0.2.7"\nnode = "b3"\n'


def _loaded(tmp_path, mesh_toml, lines):
    path = tmp_path / "meshwatchd.toml"
    canary = f'\n[[probe.canary]]\nname = "shop"\n{PLACE}{lines}'
    path.write_text(mesh_toml.replace(PROBE, PROBE + canary))
    return load(path)


def test_an_istio_gateway_is_asked_by_name_and_protocol_and_whether_it_is_ready(tmp_path, mesh_toml):
    """Two canaries, at the same place and as often."""
    lines = 'preset = "istio-eastwest"\nservice = "shop.default"\nservice_port = 8000\ninterval = "5s"\n'
    gate, ready = _loaded(tmp_path, mesh_toml, lines).probe.canary

    assert ("shop", CanaryKind.TLS, 15443, "istio") == (gate.name, gate.kind, gate.port, gate.alpn)
    assert "outbound_.8000_._.shop.default.svc.cluster.local" == gate.sni
    assert ("shop-ready", CanaryKind.HTTP, 15021, "/healthz/ready") == (ready.name, ready.kind, ready.port, ready.path)
    assert (gate.address, gate.node, gate.interval) == (ready.address, ready.node, ready.interval)


def test_a_linkerd_gateway_needs_no_service(tmp_path, mesh_toml):
    """Its identity may be another than the chart's; what is written counts."""
    gate, ready = _loaded(tmp_path, mesh_toml, 'preset = "linkerd-gateway"\nsni = "gate.example"\n').probe.canary

    assert (4143, "gate.example", "transport.l5d.io/v1") == (gate.port, gate.sni, gate.alpn)
    assert (4191, "/ready") == (ready.port, ready.path)


@pytest.mark.parametrize("preset", ["submariner-lighthouse", "coredns-multicluster"])
def test_a_dns_server_is_asked_for_the_name_in_the_set(tmp_path, mesh_toml, preset):
    """And its answer is connected to where the service's port is named."""
    lines = f'preset = "{preset}"\nservice = "shop.default"\nservice_port = 80\n'
    (canary,) = _loaded(tmp_path, mesh_toml, lines).probe.canary

    assert (CanaryKind.DNS, 53, 80) == (canary.kind, canary.port, canary.connect)
    assert "shop.default.svc.clusterset.local" == canary.lookup


def test_settings_in_force_are_written_out_in_full(tmp_path, mesh_toml):
    """What is printed loads to the same settings, and has no shorthand left."""
    settings = _loaded(tmp_path, mesh_toml, 'preset = "istio-eastwest"\nservice = "shop.default"\n')
    path = tmp_path / "printed.toml"
    path.write_text(dump_effective(settings))

    assert settings == load(path)
    assert "preset" not in path.read_text()


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('preset = "istio-eastwst"\n', ".preset: 'istio-eastwst' is none of the choices; did you mean istio-eastwest?"),
        ('preset = "envoy"\n', ".preset: 'envoy' is none of the choices; write one of istio-eastwest, "),
        ("preset = 7\n", ".preset: 7 is none of the choices"),
        ('preset = "istio-eastwest"\n', ".service: '' is no service; write NAME.NAMESPACE, as in"),
        ('preset = "coredns-multicluster"\nservice = "shop"\n', ".service: 'shop' is no service"),
        ('preset = "istio-eastwest"\nservice = "a.b"\nservice_port = 70000\n', ".service_port: 70000 is no port"),
        ('port = 80\nservice = "a.b"\n', ".service: belongs to a preset; take it out, or name the preset"),
        ('preset = "istio-eastwest"\nservice = "a.b"\npath = "/x"\n', '.path: is of no use to kind = "tls"'),
    ],
)
def test_each_mistake_is_named_with_its_remedy(spoil, lines, complaint):
    """At its place in the file, also where another preset has grown before it."""
    first = f'\n[[probe.canary]]\nname = "one"\n{PLACE}preset = "linkerd-gateway"\n'
    told = spoil(PROBE, f'{PROBE}{first}\n[[probe.canary]]\nname = "shop"\n{PLACE}{lines}')

    assert f"probe.canary[1] (shop){complaint}" in told


@pytest.mark.parametrize("document", [{}, {"probe": 7}, {"probe": {"canary": 7}}, {"probe": {"canary": [7]}}])
def test_what_is_no_canary_is_left_to_the_settings_own_types(document):
    """They have the words for it."""
    assert document == write_out(document)


def test_every_preset_is_one_of_the_commands():
    """`meshwatchctl service --preset` has the same names."""
    from meshwatchd.cli.service_presets import PRESETS as OF_COMMAND

    assert set(OF_COMMAND) == set(PRESETS)


def test_a_canary_without_preset_stays_as_it_is():
    """The very same value."""
    canary = {"name": "web"}
    assert {"probe": {"canary": [canary]}} == write_out({"probe": {"canary": [canary]}})
    with pytest.raises(ShapeError):
        write_out({"probe": {"canary": [{**canary, "preset": ""}]}})
