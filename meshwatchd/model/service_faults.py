"""The lines of the catalogue that canaries of kinds dns, tls and http find; the codes are those of `ServiceCode`."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode, Severity
from meshwatchd.model.ids import Layer

SERVICE_FAULTS = (
    Fault(
        code=FaultCode.DNS_UNREACHABLE,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="the DNS server that is asked for a service answers nothing",
        remedy="ask one of its pods from here: where that answers, this host translates no service addresses"
        " (kube-proxy or the CNI); where not, look at CoreDNS and at `meshwatchctl path ADDRESS`",
        about="Neither the name nor the one that the server always has is answered. Pods of this node that use the"
        " same server resolve nothing.",
    ),
    Fault(
        code=FaultCode.DNS_FORWARD_BROKEN,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="cluster DNS works and does not answer for the name of a service of several clusters",
        remedy="look at the pods of the server that CoreDNS' Corefile names for the set's domain (Lighthouse); a"
        " forward to itself is a loop",
        about="The server answers for its own cluster and is silent for the name that it forwards. Programs wait for"
        " their resolver and then report that the host is unknown; connections to addresses go on.",
    ),
    Fault(
        code=FaultCode.DOMAIN_NOT_SERVED,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="no DNS server that was asked is responsible for a service's domain",
        remedy="give CoreDNS' Corefile a block for the set's domain, or correct lookup of the canary",
        about="The name is refused, or denied by a zone that its domain is not in, as the root: nobody has told the"
        " cluster DNS where the set is.",
    ),
    Fault(
        code=FaultCode.NOT_SYNCED,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="the DNS server fails for the name of a service (SERVFAIL)",
        remedy="look at the log of CoreDNS, for its watch of ServiceImports and for the plugin loop",
        about="The DNS server has not read the imports yet, or forwards in a loop. It shows for some seconds after a"
        " start, and then it is no fault.",
    ),
    Fault(
        code=FaultCode.NOT_EXPORTED,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="the name of a service does not exist (NXDOMAIN)",
        remedy="look at the ServiceExport in the cluster that has the service, then at the ServiceImport in this one;"
        " `meshwatchctl service NAME.NAMESPACE` asks the API as well",
        about="This is discovery, no datapath: the service is not exported, its namespace is missing here, or its"
        " import is gone. The address that it had may still answer, which the verdict says.",
    ),
    Fault(
        code=FaultCode.EXPORTER_UNHEALTHY,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="the name of a service exists and has no address",
        remedy="look at the connection to the exporting cluster first (`subctl show connections`), then at its pods",
        about="Discovery follows health: the exporting cluster counts as not connected, or has no ready endpoint. The"
        " name comes back by itself with either.",
    ),
    Fault(
        code=FaultCode.POLICY_OR_BACKEND,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a service takes no connection, or does not answer over it, while the mesh is well",
        remedy="connect from a pod, and to an endpoint, to tell a network policy and this host's service translation"
        " from the pod",
        about="The name is right, the mesh below answers, and the service does not: a network policy, the translation"
        " of its address on this host, a proxy before pods that do not answer, or the pod. Where the connection is"
        " accepted and only TLS is silent, look at `meshwatchctl mtu` as well.",
    ),
    Fault(
        code=FaultCode.ENDPOINT_REFUSED,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="the address of a service refuses the port",
        remedy="look at the pods of the service and at its port",
        about="A segment came back, so the way works in both directions, and no service listens there.",
    ),
    Fault(
        code=FaultCode.IDENTITY,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a service's certificate is refused or out of date",
        remedy="compare the trust anchors of both clusters, and renew what has expired",
        about="The way works and the handshake does not: certificates of the two sides do not fit, or one has expired."
        " Plain health checks of the gateway stay green.",
    ),
    Fault(
        code=FaultCode.SNI_REJECTED,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a gateway ends the TLS handshake, and not for a certificate",
        remedy="check sni and alpn of the canary against the gateway's configuration, then the health of the service"
        " behind it",
        about="The gateway knows no healthy service by that name and protocol, or speaks no TLS there. An Istio"
        " gateway resets such connections while it reports itself as ready.",
    ),
    Fault(
        code=FaultCode.GATEWAY_NOT_READY,
        layer=Layer.POD,
        severity=Severity.WARNING,
        title="a gateway or service reports that it is not ready",
        remedy="look at the gateway's pods and their log",
        about="It answers HTTP by a status of 500 or above: the way works, and it says itself that it cannot serve.",
    ),
)
"""All of them warn only: no path is to blame, and nothing is moved."""
