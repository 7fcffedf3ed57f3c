"""How a service of a known kind is tried: ports, name and protocol of TLS, the path of a GET, and what its DNS means.

Source: Istio, samples/multicluster/gen-eastwest-gateway.sh and pilot/pkg/networking/core/gateway.go (SNI and ALPN of
AUTO_PASSTHROUGH); Linkerd, linkerd2-proxy linkerd/transport-header, multicluster/service-mirror/probe_worker.go;
Lighthouse, coredns/plugin/lighthouse; CoreDNS, plugin multicluster.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.connect import Knock

_LINKERD_GATEWAY: Final = "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"


class Preset(NamedTuple):
    """One kind.

    Attributes:
        knocks: from NAME.NAMESPACE, the service's port and what --sni says; None for a DNS server's kind.
        note: what its answers mean, as a sentence.
    """

    knocks: Callable[[str, int, str], tuple[Knock, ...]] | None
    note: str


def _istio(name: str, port: int, sni: str) -> tuple[Knock, ...]:
    wish = TlsWish(sni or f"outbound_.{port or 80}_._.{name}.svc.cluster.local", "istio")
    return Knock(15443, wish), Knock(15021, path="/healthz/ready")


def _linkerd(_name: str, _port: int, sni: str) -> tuple[Knock, ...]:
    return Knock(4143, TlsWish(sni or _LINKERD_GATEWAY, "transport.l5d.io/v1")), Knock(4191, path="/ready")


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
