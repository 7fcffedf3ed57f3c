"""How a service of a known kind is tried: ports, name and protocol of TLS, path of a GET; and what its DNS means."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.connect import Knock
from meshwatchd.model import gateways


class Preset(NamedTuple):
    """One kind.

    Attributes:
        knocks: from NAME.NAMESPACE, the service's port and what --sni says; None for a DNS server's kind.
        note: what its answers mean, as a sentence.
    """

    knocks: Callable[[str, int, str], tuple[Knock, ...]] | None
    note: str


def _istio(name: str, port: int, sni: str) -> tuple[Knock, ...]:
    ready_port, path = gateways.ISTIO_READY
    wish = TlsWish(sni or gateways.istio_sni(name, port), gateways.ISTIO_ALPN)
    return Knock(gateways.ISTIO_PORT, wish), Knock(ready_port, path=path)


def _linkerd(_name: str, _port: int, sni: str) -> tuple[Knock, ...]:
    ready_port, path = gateways.LINKERD_READY
    wish = TlsWish(sni or gateways.LINKERD_IDENTITY, gateways.LINKERD_ALPN)
    return Knock(gateways.LINKERD_PORT, wish), Knock(ready_port, path=path)


PRESETS: Final = MappingProxyType(
    {
        "istio-eastwest": Preset(
            _istio,
            "Istio: the gateway passes TLS on by SNI and ALPN; the alert certificate_required comes from the workload's"
            " sidecar and means that the way is good",
        ),
        "linkerd-gateway": Preset(
            _linkerd,
            "Linkerd: port 4191 shows that the gateway lives, port 4143 whether it is trusted; --sni is the mirror's"
            " annotation mirror.linkerd.io/gateway-identity",
        ),
        "submariner-lighthouse": Preset(
            None,
            "Lighthouse: NXDOMAIN is not exported; an empty answer is exported, and no connected cluster has a ready"
            " endpoint; an address proves nothing about the way",
        ),
        "coredns-multicluster": Preset(
            None,
            "CoreDNS multicluster: an address whatever the health; NXDOMAIN also of a headless service without"
            " endpoints; SERVFAIL until the imports are read",
        ),
    }
)
