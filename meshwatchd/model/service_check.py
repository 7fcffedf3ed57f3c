"""What `meshwatchctl service` finds out about the name of a service that several clusters share, and its judgement.

Each observation is frozen and says what was seen; `core.diagnosis.service_rules` makes one judgement of all. What
meshwatchd-kube has read from the Kubernetes API comes as `ApiFacts`.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Annotated, Final

import msgspec

from meshwatchd.model.ids import SessionId


class DnsResult(StrEnum):
    """How a DNS server answers; `other` is any other code, and `silent` also a server that cannot be reached."""

    ADDRESSES = "addresses"
    EMPTY = "empty"
    NXDOMAIN = "nxdomain"
    SERVFAIL = "servfail"
    REFUSED = "refused"
    OTHER = "other"
    SILENT = "silent"


class Lookup(msgspec.Struct, frozen=True, kw_only=True):
    """One question to one DNS server, by a socket of its own.

    Attributes:
        server: as ADDRESS or ADDRESS:PORT.
        name: absolute, without the last dot.
        record: "A" or "AAAA".
        zone: owner of the SOA record in a negative answer (RFC 2308), so who denies the name; "." for the root.
        detail: the response code, or what kept the question from being asked.
    """

    server: str
    name: str
    record: str = "A"
    result: DnsResult
    addresses: tuple[str, ...] = ()
    zone: str = ""
    time_ns: int = 0
    detail: str = ""


class Origin(StrEnum):
    """Where an address to connect to comes from."""

    ANSWER = "answer"
    GIVEN = "given"
    ENDPOINT = "endpoint"
    LAST = "last"


class Reach(StrEnum):
    """What becomes of a SYN, the best result first."""

    ESTABLISHED = "established"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    SILENT = "silent"


class Segments(StrEnum):
    """What becomes of full segments; `closed`: the service ended the connection before its kernel had to say."""

    UNTRIED = "untried"
    ACKNOWLEDGED = "acknowledged"
    LOST = "lost"
    CLOSED = "closed"


class Handshake(StrEnum):
    """How a TLS handshake ends; `alert` is the peer's, also one that comes right behind the handshake (TLS 1.3).

    `untried`: no time was left.
    """

    DONE = "done"
    ALERT = "alert"
    CLOSED = "closed"
    NOT_TLS = "not-tls"
    SILENT = "silent"
    UNTRIED = "untried"


class TlsResult(msgspec.Struct, frozen=True, kw_only=True):
    """One TLS handshake, in which no certificate is demanded to be good.

    Attributes:
        alert: its name as in RFC 8446 section 6; empty also where OpenSSL has no name for it.
        doubt: why this host's own authorities do not vouch for the certificate; empty where they do.
        ends_s: the certificate's notAfter, seconds of Unix time; 0 where none was shown.
        is_expired: by the clock of this host.
    """

    outcome: Handshake
    sni: str = ""
    version: str = ""
    alpn: str = ""
    alert: str = ""
    doubt: str = ""
    ends_s: int = 0
    is_expired: bool = False
    detail: str = ""


class HttpResult(msgspec.Struct, frozen=True, kw_only=True):
    """One GET; `status` is 0 where no answer came, which says nothing where no time was left to try."""

    path: str
    status: int = 0
    is_tried: bool = True


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """One port of one address.

    Attributes:
        is_guessed: nobody has said that the service has this port.
        time_ns: until the connection was established, refused or given up.
        detail: the kernel's words where it reports an error.
    """

    address: str
    port: int
    origin: Origin = Origin.ANSWER
    is_guessed: bool = False
    reach: Reach
    time_ns: int = 0
    segments: Segments = Segments.UNTRIED
    tls: TlsResult | None = None
    http: HttpResult | None = None
    detail: str = ""


class MeshWay(msgspec.Struct, frozen=True, kw_only=True):
    """What the daemon knows of the way to an address, or to a location where no node is known to have the address.

    Attributes:
        address: empty for a way that stands for a whole location.
        path: the relays as "b1-a1"; empty within a location.
        state: of that path, or of the layers to the node.
        fault, layer, culprit, because: of the verdict about it; empty where all is well.
        is_broken: the mesh's own probes fail there.
    """

    address: str = ""
    node: str = ""
    kind: str = ""
    location: str = ""
    is_local: bool = False
    path: str = ""
    state: str = ""
    fault: str = ""
    layer: str = ""
    culprit: str = ""
    because: tuple[str, ...] = ()
    is_broken: bool = False


class Remembered(msgspec.Struct, frozen=True, kw_only=True):
    """The name's addresses in the last answer of which one could be reached.

    Attributes:
        is_local: they were this cluster's own.
        age_s: of that answer; None where an operator has given the address.
    """

    addresses: tuple[str, ...]
    is_local: bool = False
    age_s: int | None = None


Port = Annotated[int, msgspec.Meta(ge=1, le=65_535)]


class ApiPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a ServiceImport."""

    port: Port
    name: str = ""
    protocol: str = "TCP"


class ApiCondition(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of a ServiceExport: Valid, Ready or Conflict."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class ApiEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints of one cluster.

    Attributes:
        cluster: by multicluster.kubernetes.io/source-cluster; empty for the service of this cluster.
        ready: addresses that are ready, some at most.
        ports: of these addresses, TCP.
        total, ready_total: how many there are.
    """

    cluster: str = ""
    ready: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    ready_total: int = 0
    total: int = 0


class ApiGap(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of objects that could not be read, and why."""

    kind: str
    why: str


class ApiFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the Kubernetes API of this cluster says about the service.

    Attributes:
        is_imported, is_exported: whether there is a ServiceImport or ServiceExport; None where that could not be read.
        kind: of the import, "ClusterSetIP" or "Headless".
        clusters: that export it, by the import.
        endpoints: by cluster; None where they could not be read.
        gaps: what could not be read.
    """

    is_imported: bool | None = None
    kind: str = ""
    ips: tuple[str, ...] = ()
    ports: tuple[ApiPort, ...] = ()
    clusters: tuple[str, ...] = ()
    is_exported: bool | None = None
    conditions: tuple[ApiCondition, ...] = ()
    endpoints: tuple[ApiEndpoints, ...] | None = None
    gaps: tuple[ApiGap, ...] = ()

    @property
    def exported_endpoints(self) -> tuple[ApiEndpoints, ...]:
        """Those behind the name of the set: this cluster's own only where it exports the service."""
        return tuple(each for each in self.endpoints or () if each.cluster or self.is_exported)

    @property
    def tcp_ports(self) -> tuple[int, ...]:
        """Of the import."""
        return tuple(each.port for each in self.ports if each.protocol == "TCP")


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """All that was seen of one service.

    Attributes:
        name: NAME.NAMESPACE.
        domain: of the set, as "clusterset.local".
        answer, answer6, control, local, also: the name's A and AAAA records; `kubernetes.default` of the cluster's own
            domain; the same service of this cluster alone; the answer of a second server. None where not asked.
        ways: by the daemon; none without it.
        daemon_problem, api_problem: why they could not be asked.
        notes: what else there is to know, as sentences.
    """

    name: str
    domain: str
    preset: str = ""
    answer: Lookup | None = None
    answer6: Lookup | None = None
    control: Lookup | None = None
    local: Lookup | None = None
    also: Lookup | None = None
    connections: tuple[Connection, ...] = ()
    ways: tuple[MeshWay, ...] = ()
    daemon_problem: str = ""
    remembered: Remembered | None = None
    api: ApiFacts | None = None
    api_problem: str = ""
    notes: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of the name, IPv4 first."""
        return tuple(address for lookup in (self.answer, self.answer6) if lookup for address in lookup.addresses)

    @property
    def is_local(self) -> bool:
        """Whether the name leads to this cluster's own service."""
        local = set(self.local.addresses) if self.local is not None else set()
        local |= {way.address for way in self.ways if way.is_local and way.address}
        return bool(self.addresses) and local.issuperset(self.addresses)


NOT_SEEN: Final = 125
"""ECANCELED, as the errno of a SendFailed: nobody has asked, or nobody was there to see what came back. No miss."""


class ServiceSeen(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=True):
    """What one question of a canary of kind dns, tls or http has found; whether that is good is for the core to say.

    Attributes:
        session, seq: of the probe.
        rtt_ns: until the last answer that was waited for.
        lookup, control: of kind dns: the name, and the one that the server always has.
        connection: of kinds tls and http, and of dns where it connects.
    """

    session: SessionId
    seq: int
    rtt_ns: int = 0
    lookup: Lookup | None = None
    control: Lookup | None = None
    connection: Connection | None = None


class ServiceCode(StrEnum):
    """What is the matter with a service."""

    GOOD = "good"
    WITHDRAWN = "withdrawn"
    DNS_UNREACHABLE = "dns-unreachable"
    DNS_FORWARD_BROKEN = "dns-forward-broken"
    DOMAIN_NOT_SERVED = "domain-not-served"
    NOT_SYNCED = "not-synced"
    NOT_EXPORTED = "not-exported"
    EXPORTER_UNHEALTHY = "exporter-unhealthy"
    VIP_NOT_TRANSLATED = "vip-not-translated"
    DATAPATH = "datapath"
    POLICY_OR_BACKEND = "policy-or-backend"
    ENDPOINT_REFUSED = "endpoint-refused"
    MTU = "mtu"
    IDENTITY = "identity"
    SNI_REJECTED = "sni-rejected"
    GATEWAY_NOT_READY = "gateway-not-ready"
    UNDETERMINED = "undetermined"


class Area(StrEnum):
    """Who has to look: nobody, who keeps DNS and exports, who keeps the network, or who keeps the service."""

    NONE = "none"
    DISCOVERY = "discovery"
    DATAPATH = "datapath"
    SERVICE = "service"
    UNKNOWN = "unknown"


class Health(IntEnum):
    """How it is, as an exit status."""

    GOOD = 0
    DOUBTFUL = 1
    BROKEN = 2


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """One conclusion.

    Attributes:
        meaning: one sentence.
        proof: what it rests on, as sentences; what the Kubernetes API says begins with "API:".
        remedy: one sentence; empty where nothing is to be done.
    """

    code: ServiceCode
    area: Area
    health: Health
    meaning: str
    proof: tuple[str, ...] = ()
    remedy: str = ""
