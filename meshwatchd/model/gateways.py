"""What gateways between clusters, and DNS servers of a set of clusters, are asked.

Source: Istio, samples/multicluster/gen-eastwest-gateway.sh and pilot/pkg/networking/core/gateway.go (SNI and ALPN of
AUTO_PASSTHROUGH); Linkerd, linkerd2-proxy linkerd/transport-header, multicluster/service-mirror/probe_worker.go;
Lighthouse, coredns/plugin/lighthouse; CoreDNS, plugin multicluster.
"""

from __future__ import annotations

from typing import Final

ISTIO_PORT: Final = 15443
ISTIO_ALPN: Final = "istio"
ISTIO_READY: Final = (15021, "/healthz/ready")
"""Port and path of a GET."""

LINKERD_PORT: Final = 4143
LINKERD_ALPN: Final = "transport.l5d.io/v1"
LINKERD_READY: Final = (4191, "/ready")
LINKERD_IDENTITY: Final = "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"
"""The server name of a gateway that was installed as its chart has it."""

DNS_PORT: Final = 53
SET_DOMAIN: Final = "clusterset.local"


def istio_sni(name: str, port: int) -> str:
    """The server name by which a gateway passes a connection on to NAME.NAMESPACE."""
    return f"outbound_.{port or 80}_._.{name}.svc.cluster.local"
