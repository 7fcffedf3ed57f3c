"""Canaries of kinds dns, tls and http: each mistake has its place and its remedy."""

from __future__ import annotations

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.canary import CanaryKind

PROBE = "[probe]\nport = 18618"
CANARY = '\n[[probe.canary]]\nname = "shop"\naddress = "192.0.2.7"\nport = 443\nnode = "b3"\n'
LOOKUP = 'lookup = "shop.default.svc.clusterset.local"\n'


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ('kind = "dns"\n' + LOOKUP, CanaryKind.DNS),
        ('kind = "tls"\nsni = "outbound_.80_._.shop.default.svc.cluster.local"\nalpn = "istio"\n', CanaryKind.TLS),
        ('kind = "http"\npath = "/healthz/ready"\n', CanaryKind.HTTP),
    ],
)
def test_each_kind_has_settings_of_its_own(tmp_path, mesh_toml, lines, kind):
    """And is known as a service."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text(mesh_toml.replace(PROBE, PROBE + CANARY + lines))
    (canary,) = load(path).probe.canary

    assert (kind, True) == (canary.kind, canary.is_service)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('kind = "dns"\n', '.lookup: is empty, and kind is "dns"; name what is asked for'),
        (f'kind = "dns"\n{LOOKUP}control = ""\n', ".control: is empty, so a server that is dead"),
        ('kind = "dns"\nlookup = "shop.default."\n', ".lookup: 'shop.default.' is no name of DNS; write labels"),
        (f'kind = "dns"\n{LOOKUP}connect = 70000\n', ".connect: 70000 is out of range; write 0 to 65535 (0 for none)"),
        (f'kind = "tcp"\n{LOOKUP}', '.lookup: is of no use to kind = "tcp"; take it out, or write kind = "dns"'),
        ('kind = "tls"\nconnect = 80\n', '.connect: is of no use to kind = "tls"'),
        ('kind = "udp"\nsni = "shop"\n', '.sni: is of no use to kind = "udp"; take it out, or write kind = "tls"'),
        ('kind = "tcp"\nalpn = "h2"\n', '.alpn: is of no use to kind = "tcp"'),
        ('kind = "tls"\npath = "/ready"\n', '.path: is of no use to kind = "tls"; take it out, or write kind = "http"'),
        ('kind = "http"\npath = "ready"\n', ".path: 'ready' is no path; start it with /"),
        ('kind = "http"\npath = "/a\\r\\nX: 1"\n', ".path: '/a\\r\\nX: 1' is no path"),
        ('kind = "http"\nalpn = "h2"\n', ".alpn: is offered in a TLS handshake, and without sni http makes none"),
        ('kind = "tls"\nalpn = "a b"\n', ".alpn: 'a b' is no name of a protocol; write ASCII without spaces"),
        (
            'kind = "tls"\nrole = "kubelet"\n',
            '.role: is of no use to kind = "tls", which names what is wrong',
        ),
        ('kind = "tls"\ninterval = "500ms"\n', '.interval: is shorter than one question of kind = "tls" may take'),
    ],
)
def test_each_mistake_is_named_with_its_remedy(spoil, lines, complaint):
    """File, key, problem, remedy."""
    assert f"probe.canary[0] (shop){complaint}" in spoil(PROBE, PROBE + CANARY + lines)
