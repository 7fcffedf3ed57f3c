"""Observations of a service that several clusters share, one for each row of the table about services."""

from __future__ import annotations

from typing import Any

from meshwatchd.model.service_check import (
    ApiCondition,
    ApiEndpoints,
    ApiFacts,
    ApiGap,
    ApiPort,
    Connection,
    DnsResult,
    Handshake,
    HttpResult,
    Lookup,
    MeshWay,
    Observations,
    Origin,
    Reach,
    Remembered,
    Segments,
    ServiceCode,
    TlsResult,
)

SERVER, VIP, POD, OWN_VIP = "10.96.0.10", "10.110.3.4", "10.244.3.7", "10.96.7.7"
NAME = "shop.default.svc.clusterset.local"
MS = 1_000_000


def lookup(result: DnsResult = DnsResult.ADDRESSES, *addresses: str, **changes: Any) -> Lookup:
    """An answer of cluster DNS about the name."""
    detail = {
        DnsResult.NXDOMAIN: "NXDOMAIN",
        DnsResult.SERVFAIL: "SERVFAIL",
        DnsResult.REFUSED: "REFUSED",
        DnsResult.SILENT: "",
    }.get(result, "NOERROR")
    fields = {"server": SERVER, "name": NAME, "time_ns": 2 * MS, "detail": detail, **changes}
    return Lookup(result=result, addresses=addresses, **fields)


CONTROL = lookup(DnsResult.ADDRESSES, "10.96.0.1", name="kubernetes.default.svc.cluster.local")
SILENT_CONTROL = lookup(DnsResult.SILENT, name=CONTROL.name, time_ns=900 * MS)
NO_IPV6 = lookup(DnsResult.EMPTY, record="AAAA")


def connection(reach: Reach = Reach.ESTABLISHED, address: str = VIP, **changes: Any) -> Connection:
    """A connection to the service's port."""
    segments = Segments.ACKNOWLEDGED if reach is Reach.ESTABLISHED else Segments.UNTRIED
    fields = {"port": 8080, "time_ns": 31 * MS, "segments": segments, **changes}
    return Connection(address=address, reach=reach, **fields)


def seen(answer: Lookup | None = None, *connections: Connection, **changes: Any) -> Observations:
    """Of a name with one address, unless the answer is otherwise."""
    fields: dict[str, Any] = {
        "name": "shop.default",
        "domain": "clusterset.local",
        "answer": answer or lookup(DnsResult.ADDRESSES, VIP),
        "answer6": NO_IPV6,
        "control": CONTROL,
        "connections": connections,
        **changes,
    }
    return Observations(**fields)


WELL = MeshWay(location="onprem", path="b1-a1", state="good")
TO_POD = MeshWay(address=POD, node="a3", kind="pod", location="onprem", path="b1-a1", state="good")
BROKEN_WAY = MeshWay(
    address=POD,
    node="a3",
    kind="pod",
    location="onprem",
    path="b1-a1",
    state="down",
    fault="overlay-new-flows",
    layer="overlay",
    culprit="b1",
    because=("new flows die between b3 and b1",),
    is_broken=True,
)
CUT = MeshWay(location="edge", path="b1-c1", state="down", is_broken=True)
BEFORE = Remembered(addresses=(VIP,), age_s=11_000)
LAST_ANSWERS = connection(origin=Origin.LAST)
LAST_IS_SILENT = connection(Reach.SILENT, origin=Origin.LAST)
CONFLICT = ApiCondition(type="Conflict", status="True", reason="PortConflict", message="port 8080 is UDP in east")
PORTS = (ApiPort(port=8080, name="http"),)
NONE_READY = ApiFacts(
    is_imported=True,
    kind="ClusterSetIP",
    ips=(VIP,),
    ports=PORTS,
    clusters=("east",),
    is_exported=False,
    endpoints=(ApiEndpoints(cluster="east", total=3),),
)
EXPORTED_THERE = ApiFacts(
    is_imported=True,
    kind="ClusterSetIP",
    ips=(VIP,),
    ports=PORTS,
    clusters=("east",),
    is_exported=False,
    endpoints=(ApiEndpoints(cluster="east", ready=(POD,), ports=(8080,), ready_total=1, total=1),),
)
CONFLICTING = ApiFacts(
    is_imported=False,
    is_exported=True,
    conditions=(CONFLICT, ApiCondition(type="Valid", status="True", reason="Valid")),
    gaps=(ApiGap(kind="EndpointSlice", why="forbidden (403 endpointslices is forbidden)"),),
)
NEVER_EXPORTED = ApiFacts(
    is_imported=False,
    is_exported=False,
    endpoints=(ApiEndpoints(ready=(POD,), ports=(8080,), ready_total=1, total=1),),
)
PASSED_ON = TlsResult(outcome=Handshake.ALERT, sni="outbound_.80_._.shop", alert="certificate_required")
EXPIRED = TlsResult(
    outcome=Handshake.DONE,
    sni="shop.example",
    version="TLSv1.3",
    doubt="certificate has expired",
    ends_s=1_577_836_800,
    is_expired=True,
)

_NXDOMAIN, _EMPTY = lookup(DnsResult.NXDOMAIN), lookup(DnsResult.EMPTY)
_SILENT = lookup(DnsResult.SILENT, time_ns=900 * MS)

EXAMPLES: dict[str, tuple[ServiceCode, Observations]] = {
    "dns-unreachable": (
        ServiceCode.DNS_UNREACHABLE,
        seen(_SILENT, control=SILENT_CONTROL, daemon_problem="there is no socket"),
    ),
    "dns-forward-broken": (
        ServiceCode.DNS_FORWARD_BROKEN,
        seen(_SILENT, LAST_ANSWERS, remembered=BEFORE),
    ),
    "dns-forward-lost": (
        ServiceCode.DNS_FORWARD_BROKEN,
        seen(_NXDOMAIN, also=lookup(DnsResult.ADDRESSES, VIP, server="10.96.0.77")),
    ),
    "not-synced": (ServiceCode.NOT_SYNCED, seen(lookup(DnsResult.SERVFAIL))),
    "domain-not-served": (ServiceCode.DOMAIN_NOT_SERVED, seen(lookup(DnsResult.NXDOMAIN, zone="."))),
    "dns-odd": (ServiceCode.UNDETERMINED, seen(lookup(DnsResult.OTHER, detail="FORMERR"))),
    "not-exported-conflict": (ServiceCode.NOT_EXPORTED, seen(_NXDOMAIN, api=CONFLICTING)),
    "not-exported-here": (ServiceCode.NOT_EXPORTED, seen(_NXDOMAIN, api=NEVER_EXPORTED)),
    "not-exported": (
        ServiceCode.NOT_EXPORTED,
        seen(_NXDOMAIN, LAST_ANSWERS, remembered=BEFORE, ways=(WELL,)),
    ),
    "exporter-cut": (
        ServiceCode.EXPORTER_UNHEALTHY,
        seen(_EMPTY, LAST_IS_SILENT, remembered=BEFORE, ways=(BROKEN_WAY,)),
    ),
    "exporter-empty": (ServiceCode.EXPORTER_UNHEALTHY, seen(_EMPTY, api=NONE_READY, ways=(WELL,))),
    "exporter-perhaps-cut": (ServiceCode.EXPORTER_UNHEALTHY, seen(_EMPTY, ways=(WELL, CUT))),
    "exporter-unhealthy": (ServiceCode.EXPORTER_UNHEALTHY, seen(_EMPTY)),
    "port-too-late": (
        ServiceCode.UNDETERMINED,
        seen(None, connection(Reach.REFUSED, port=443, is_guessed=True), api=EXPORTED_THERE),
    ),
    "vip-not-translated": (
        ServiceCode.VIP_NOT_TRANSLATED,
        seen(
            None,
            connection(Reach.SILENT),
            connection(address=POD, origin=Origin.ENDPOINT),
            ways=(TO_POD,),
            api=EXPORTED_THERE,
        ),
    ),
    "datapath": (
        ServiceCode.DATAPATH,
        seen(lookup(DnsResult.ADDRESSES, POD), connection(Reach.SILENT, POD, time_ns=2000 * MS), ways=(BROKEN_WAY,)),
    ),
    "perhaps-datapath": (ServiceCode.DATAPATH, seen(None, connection(Reach.SILENT), ways=(WELL, CUT))),
    "policy-or-backend": (
        ServiceCode.POLICY_OR_BACKEND,
        seen(lookup(DnsResult.ADDRESSES, POD), connection(Reach.SILENT, POD), ways=(TO_POD,)),
    ),
    "no-daemon": (
        ServiceCode.UNDETERMINED,
        seen(None, connection(Reach.UNREACHABLE, detail="No route to host"), daemon_problem="there is no socket"),
    ),
    "endpoint-refused": (ServiceCode.ENDPOINT_REFUSED, seen(None, connection(Reach.REFUSED))),
    "mtu": (ServiceCode.MTU, seen(None, connection(segments=Segments.LOST), ways=(WELL,))),
    "identity-alert": (
        ServiceCode.IDENTITY,
        seen(None, connection(tls=TlsResult(outcome=Handshake.ALERT, sni="x", alert="unknown_ca"))),
    ),
    "sni-rejected": (
        ServiceCode.SNI_REJECTED,
        seen(None, connection(tls=TlsResult(outcome=Handshake.CLOSED, sni="x", detail="Connection reset by peer"))),
    ),
    "mute": (ServiceCode.POLICY_OR_BACKEND, seen(None, connection(http=HttpResult(path="/ready")))),
    "gateway-not-ready": (
        ServiceCode.GATEWAY_NOT_READY,
        seen(None, connection(http=HttpResult(path="/healthz/ready", status=503))),
    ),
    "untried": (
        ServiceCode.UNDETERMINED,
        seen(
            None,
            connection(tls=TlsResult(outcome=Handshake.UNTRIED, sni="x"), http=HttpResult(path="/", is_tried=False)),
        ),
    ),
    "withdrawn": (
        ServiceCode.WITHDRAWN,
        seen(
            lookup(DnsResult.ADDRESSES, OWN_VIP),
            connection(address=OWN_VIP),
            local=lookup(DnsResult.ADDRESSES, OWN_VIP, name="shop.default.svc.cluster.local"),
            remembered=BEFORE,
        ),
    ),
    "good": (ServiceCode.GOOD, seen(None, connection(tls=PASSED_ON), ways=(WELL,), notes=("DNS server: as given",))),
    "nothing": (ServiceCode.UNDETERMINED, seen(answer6=None, control=None)),
}
"""By a name of its own; in the order of the table."""
