"""Is it discovery or datapath? From what was seen of one service of several clusters to one judgement.

An ordered table, first match wins, and the last row always matches. Rows go along a client's way: the DNS server, the
name, the SYN to its address, full segments, TLS, HTTP. The Kubernetes API refines. Each code is reached without it but
for vip-not-translated, which takes an endpoint that the API has named.

Source: the Multi-Cluster Services API (KEP-1645); Lighthouse, coredns/plugin/lighthouse/handler.go; CoreDNS, its plugin
multicluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from meshwatchd.core.diagnosis import service_proof as proof
from meshwatchd.core.diagnosis.service_signs import (
    bad_conditions,
    broken_ways,
    count_ready,
    endpoints_established,
    failed_http,
    is_direct_better,
    is_domain_foreign,
    is_export_missing_here,
    is_guessed,
    is_identity_refused,
    is_reached,
    is_way_broken,
    is_withdrawn,
    is_without_address,
    judged,
    late_ports,
    mute_talks,
    rejected_talks,
    result_of,
    untried_talks,
    with_reach,
    without_answer,
)
from meshwatchd.model.service_check import (
    Area,
    DnsResult,
    Health,
    Judgement,
    Observations,
    Reach,
    Segments,
    ServiceCode,
)

Proof = Callable[[Observations], Iterator[str]]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table.

    Attributes:
        is_partial: doubtful and not broken, where another address of the name is well, or the ports are guessed and the
            mesh's probes are well.
    """

    code: ServiceCode
    area: Area
    meaning: str
    matches: Callable[[Observations], bool]
    proof: tuple[Proof, ...]
    remedy: str
    health: Health = Health.BROKEN
    is_partial: bool = False


_DISCOVERY, _DATAPATH, _SERVICE = Area.DISCOVERY, Area.DATAPATH, Area.SERVICE

TABLE: Final[tuple[Row, ...]] = (
    # --- the DNS server ---
    Row(
        code=ServiceCode.DNS_UNREACHABLE,
        area=_DATAPATH,
        meaning="the DNS server answers this host nothing at all",
        matches=lambda o: result_of(o.answer) is result_of(o.control) is DnsResult.SILENT,
        proof=(proof.dns, proof.mesh),
        remedy="ask one of its pods by --dns ADDRESS: where that answers, this host translates no service addresses"
        " (kube-proxy or the CNI); where not, look at CoreDNS and at `meshwatchctl path ADDRESS`",
    ),
    Row(
        code=ServiceCode.DNS_FORWARD_BROKEN,
        area=_DISCOVERY,
        meaning="cluster DNS works, and does not answer for the set's domain: the server that it forwards to is silent,"
        " or the forward is a loop",
        matches=lambda o: result_of(o.answer) is DnsResult.SILENT,
        proof=(proof.dns, proof.last),
        remedy="look at the pods of the server that CoreDNS' Corefile names for the set's domain (Lighthouse), and ask"
        " it: --also ADDRESS",
    ),
    Row(
        code=ServiceCode.DNS_FORWARD_BROKEN,
        area=_DISCOVERY,
        meaning="the set's own server has the name, and cluster DNS does not pass that on",
        matches=is_direct_better,
        proof=(proof.dns, proof.last),
        remedy="look at the Corefile: the block of the set's domain must forward to the second server",
    ),
    # --- the name ---
    Row(
        code=ServiceCode.NOT_SYNCED,
        area=_DISCOVERY,
        meaning="the DNS server fails for this name: it has not read the imports yet, or forwards in a loop",
        matches=lambda o: result_of(o.answer) is DnsResult.SERVFAIL,
        proof=(proof.dns, proof.api, proof.last),
        remedy="look at the log of CoreDNS, for its watch of ServiceImports and for the plugin loop",
    ),
    Row(
        code=ServiceCode.DOMAIN_NOT_SERVED,
        area=_DISCOVERY,
        meaning="no DNS server that was asked is responsible for the set's domain",
        matches=is_domain_foreign,
        proof=(proof.dns, proof.api, proof.last),
        remedy="give CoreDNS' Corefile a block for the set's domain, or name the right domain by --domain",
    ),
    Row(
        code=ServiceCode.UNDETERMINED,
        area=Area.UNKNOWN,
        meaning="the DNS server answers by a code that says nothing about the name",
        matches=lambda o: result_of(o.answer) is DnsResult.OTHER,
        proof=(proof.dns, proof.api, proof.last),
        remedy="look at the DNS server's log, and whether --dns names a server of this cluster",
    ),
    Row(
        code=ServiceCode.NOT_EXPORTED,
        area=_DISCOVERY,
        meaning="the name does not exist, and its ServiceExport reports a problem",
        matches=lambda o: result_of(o.answer) is DnsResult.NXDOMAIN and bool(bad_conditions(o)),
        proof=(proof.dns, proof.api, proof.last),
        remedy="mend what the condition of the ServiceExport names; ports and type must agree in all clusters",
    ),
    Row(
        code=ServiceCode.NOT_EXPORTED,
        area=_DISCOVERY,
        meaning="the name does not exist: this cluster has the service and does not export it",
        matches=lambda o: result_of(o.answer) is DnsResult.NXDOMAIN and is_export_missing_here(o),
        proof=(proof.dns, proof.api, proof.last),
        remedy="create a ServiceExport of that name and namespace in the cluster that has the service",
    ),
    Row(
        code=ServiceCode.NOT_EXPORTED,
        area=_DISCOVERY,
        meaning="the name does not exist: it is not exported, its namespace is missing here, or its import is gone",
        matches=lambda o: result_of(o.answer) is DnsResult.NXDOMAIN,
        proof=(proof.dns, proof.api, proof.last, proof.mesh),
        remedy="look at the ServiceExport in the cluster that has the service, then at the ServiceImport in this one",
    ),
    Row(
        code=ServiceCode.EXPORTER_UNHEALTHY,
        area=_DATAPATH,
        meaning="the name exists and has no address, and the mesh does not reach where it may be exported",
        matches=lambda o: is_without_address(o) and is_way_broken(o),
        proof=(proof.dns, proof.mesh, proof.api, proof.last),
        remedy="mend the way first: meshwatchctl explain",
    ),
    Row(
        code=ServiceCode.EXPORTER_UNHEALTHY,
        area=_SERVICE,
        meaning="the name exists and has no address, since no endpoint is ready",
        matches=lambda o: is_without_address(o) and count_ready(o) == 0,
        proof=(proof.dns, proof.api, proof.last),
        remedy="look at the pods of the service in the clusters that export it",
    ),
    Row(
        code=ServiceCode.EXPORTER_UNHEALTHY,
        area=_DATAPATH,
        meaning="the name exists and has no address, and the mesh does not reach a location that may export it",
        matches=lambda o: is_without_address(o) and bool(broken_ways(o)),
        proof=(proof.dns, proof.mesh, proof.api, proof.last),
        remedy="find out whether that location exports it; if so, mend the way first: meshwatchctl explain",
        health=Health.DOUBTFUL,
    ),
    Row(
        code=ServiceCode.EXPORTER_UNHEALTHY,
        area=_DISCOVERY,
        meaning="the name exists and has no address: the exporting cluster counts as not connected, or has no ready"
        " endpoint",
        matches=is_without_address,
        proof=(proof.dns, proof.api, proof.last, proof.mesh),
        remedy="look at the connection to the exporting cluster first (`subctl show connections`), then at its pods",
    ),
    # --- the SYN ---
    Row(
        code=ServiceCode.UNDETERMINED,
        area=Area.UNKNOWN,
        meaning="the service has other ports than those that were tried",
        matches=lambda o: bool(late_ports(o)),
        proof=(proof.connections, proof.api),
        remedy="name the port by --port",
        health=Health.DOUBTFUL,
    ),
    Row(
        code=ServiceCode.VIP_NOT_TRANSLATED,
        area=_SERVICE,
        meaning="an endpoint of the service answers, and the service's own address does not: this host does not"
        " translate it",
        # At a port that is not its own a service's address is silent wherever it is translated.
        # Another address that answers is translated, and a way that is broken explains the silence as well.
        matches=lambda o: (
            bool(without_answer(o) and endpoints_established(o))
            and not (is_guessed(o) or is_reached(o) or broken_ways(o))
        ),
        proof=(proof.connections, proof.mesh, proof.api),
        remedy="look at kube-proxy or at the CNI's service translation of this host; pods may be served all the same",
        health=Health.DOUBTFUL,
    ),
    Row(
        code=ServiceCode.DATAPATH,
        area=_DATAPATH,
        meaning="the name is right and its address does not answer, and neither do the mesh's own probes of that place",
        matches=lambda o: bool(without_answer(o)) and is_way_broken(o),
        proof=(proof.mesh, proof.connections, proof.api),
        remedy="meshwatchctl explain",
        is_partial=True,
    ),
    Row(
        code=ServiceCode.DATAPATH,
        area=_DATAPATH,
        meaning="the name is right and its address does not answer, and neither do the mesh's own probes of a location"
        " that may have it",
        matches=lambda o: bool(without_answer(o) and broken_ways(o)),
        proof=(proof.mesh, proof.connections, proof.api),
        remedy="find out whether that location has the service; if so: meshwatchctl explain",
        health=Health.DOUBTFUL,
    ),
    Row(
        code=ServiceCode.POLICY_OR_BACKEND,
        area=_SERVICE,
        meaning="the name is right and its address does not answer, and the mesh's own probes are well: a network"
        " policy, this host's service translation, or the pod",
        matches=lambda o: bool(without_answer(o) and o.ways),
        proof=(proof.connections, proof.mesh, proof.api),
        remedy="connect from a pod to tell policy from pod; to an endpoint, by --at ADDRESS, to tell them from the"
        " service's address",
        is_partial=True,
    ),
    Row(
        code=ServiceCode.UNDETERMINED,
        area=Area.UNKNOWN,
        meaning="the name is right and its address does not answer; without the daemon it is not known whether the way"
        " or the service is at fault",
        matches=lambda o: bool(without_answer(o)),
        proof=(proof.connections, proof.mesh, proof.api),
        remedy="start meshwatchd here, or run this on a node where it runs",
        is_partial=True,
    ),
    Row(
        code=ServiceCode.ENDPOINT_REFUSED,
        area=_SERVICE,
        meaning="the address refuses the port: the way there works, and no service listens",
        matches=lambda o: bool(with_reach(o, Reach.REFUSED)),
        proof=(proof.connections, proof.api),
        remedy="look at the pods and at the port of the service; name its port by --port where it was guessed",
        is_partial=True,
    ),
    # --- what an established connection carries ---
    Row(
        code=ServiceCode.MTU,
        area=_DATAPATH,
        meaning="small packets pass, and full segments are not acknowledged: the MTU of the way, or an offload that"
        " spoils them",
        matches=lambda o: any(each.segments is Segments.LOST for each in judged(o)),
        proof=(proof.segments, proof.mesh),
        remedy="meshwatchctl mtu; where that shows no black hole, switch the offloads of the tunnel's devices off"
        " (ethtool -K DEVICE tx off)",
        is_partial=True,
    ),
    Row(
        code=ServiceCode.IDENTITY,
        area=_SERVICE,
        meaning="the way works, and a certificate is refused or out of date",
        matches=is_identity_refused,
        proof=(proof.tls, proof.http),
        remedy="compare the trust anchors of both clusters, and renew what has expired",
    ),
    Row(
        code=ServiceCode.SNI_REJECTED,
        area=_SERVICE,
        meaning="the other end ends the handshake, and not for a certificate: it knows no healthy service by this name"
        " and protocol, agrees on no version or cipher, fails by itself, or speaks no TLS here",
        matches=lambda o: bool(rejected_talks(o)),
        proof=(proof.tls, proof.http),
        remedy="check --sni and --alpn against the gateway's configuration, then the health of the service behind it",
    ),
    Row(
        code=ServiceCode.POLICY_OR_BACKEND,
        area=_SERVICE,
        meaning="the connection is accepted, and what is asked over it, TLS or HTTP, is not answered",
        matches=lambda o: bool(mute_talks(o)),
        proof=(proof.tls, proof.http, proof.segments),
        remedy="look at what stands behind the address: a proxy takes connections for pods that do not answer",
    ),
    Row(
        code=ServiceCode.GATEWAY_NOT_READY,
        area=_SERVICE,
        meaning="the way works, and the gateway or service reports that it is not ready",
        matches=lambda o: bool(failed_http(o)),
        proof=(proof.http, proof.tls),
        remedy="look at the gateway's pods and their log",
    ),
    Row(
        code=ServiceCode.UNDETERMINED,
        area=Area.UNKNOWN,
        meaning="the connection is accepted, and no time was left to try TLS or HTTP over it",
        matches=lambda o: bool(untried_talks(o)),
        proof=(proof.tls, proof.http, proof.connections),
        remedy="run it again: the kernel repeats a SYN that is lost after a second only",
        health=Health.DOUBTFUL,
    ),
    # --- it works ---
    Row(
        code=ServiceCode.WITHDRAWN,
        area=Area.NONE,
        meaning="the other cluster's service was withdrawn, and this cluster's own answers: no outage",
        matches=lambda o: is_reached(o) and is_withdrawn(o),
        proof=(proof.dns, proof.connections, proof.withdrawn, proof.api),
        remedy="",
        health=Health.GOOD,
    ),
    Row(
        code=ServiceCode.GOOD,
        area=Area.NONE,
        meaning="the service answers",
        matches=is_reached,
        proof=(proof.dns, proof.connections, proof.tls, proof.http),
        remedy="",
        health=Health.GOOD,
    ),
    Row(
        code=ServiceCode.UNDETERMINED,
        area=Area.UNKNOWN,
        meaning="what was seen leads to no conclusion",
        matches=lambda _: True,
        proof=(proof.dns, proof.connections, proof.api),
        remedy="name the port by --port, and look at each step below",
    ),
)


def judge(seen: Observations) -> Judgement:
    """The first row that matches, with its proof; the same observations make the same judgement."""
    row = next(row for row in TABLE if row.matches(seen))
    is_softened = row.is_partial and (is_reached(seen) or (is_guessed(seen) and not broken_ways(seen)))
    return Judgement(
        code=row.code,
        area=row.area,
        health=min(row.health, Health.DOUBTFUL) if is_softened else row.health,
        meaning=row.meaning,
        proof=tuple(dict.fromkeys(line for lines in row.proof for line in lines(seen))),
        remedy=row.remedy,
    )
