"""Canaries as they are declared: what is asked behind a node of the mesh, and what satisfies."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta

from meshwatchd.model.ids import NodeName
from meshwatchd.model.setting_types import Duration, Name, ServerName, UdpPort
from meshwatchd.model.units import MINUTE, SECOND


class CanaryKind(StrEnum):
    """How a canary is asked."""

    UDP = "udp"
    TCP = "tcp"
    BULK = "bulk"
    DNS = "dns"
    TLS = "tls"
    HTTP = "http"


SERVICE_KINDS = (CanaryKind.DNS, CanaryKind.TLS, CanaryKind.HTTP)
"""Those that ask for a service by its own protocol, so that what is wrong with it can be named."""


class CanaryExpect(StrEnum):
    """What counts as an answer of a canary."""

    ANSWER = "answer"
    SERVICE = "service"


class CanaryRole(StrEnum):
    """What a canary stands for, which decides what its silence is called."""

    AUTO = "auto"
    POD = "pod"
    KUBELET = "kubelet"
    APISERVER = "apiserver"


_ROLE_OF_PORT = MappingProxyType({10250: CanaryRole.KUBELET, 6443: CanaryRole.APISERVER})
"""The ports that Kubernetes gives them unless told otherwise."""


class Canary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pod, or anything behind a node, that is asked by every node of the other locations.

    It tells whether the last step works, from the node to its pod; it never moves traffic.

    Attributes:
        name: what it is called in verdicts and in the status.
        address: IPv4 or IPv6, as pods see it. Where the overlay stands on the tunnels (flannel over wg0), an IPv4
            address outside of the mesh, the node's public one, makes it a witness: it tells a dead node from a blocked
            tunnel.
        port: destination port.
        node: the node of the mesh it stands for.
        kind: how it is asked. udp sends a DNS question for the root's name servers and takes any datagram for an
            answer, so that an echo server will do as well; tcp connects and closes; bulk is tcp with expect = "service"
            and besides sends some full segments over a second connection, up to 16 KiB of zeros, and waits until the
            kernel at the other end has acknowledged them: a broken offload kills those only. Ask a service that stands
            garbage, a discard server (RFC 863) best of all. dns asks the server at this address for `lookup`, tls
            shakes hands with `sni` and `alpn`, http sends GET `path` (over TLS where there is an sni): what is wrong is
            named as `meshwatchctl service` names it.
        role: what its silence is called: pod-unreachable, kubelet-unreachable or apiserver-unreachable. auto goes by
            the port: 10250 is a kubelet's, 6443 an API server's, any other a pod's.
        expect: what satisfies. answer takes whatever proves the way there and back, a refused connection (RST)
            included, as the host discovery of port scanners does; service wants the connection. dns, tls and http want
            a good answer always.
        interval: between questions. Somebody else's service answers: five a second from every node are enough. One
            question of dns, tls or http takes up to a second, so these have an interval of 1s at least.
        lookup: the absolute name that dns asks the addresses of, as in shop.default.svc.clusterset.local.
        control: a name that the same server always has; where it is answered and `lookup` is not, the server lives and
            its forward is broken.
        connect: a port that dns connects to at the first address of the answer; where the name is gone, at the address
            that answered last. 0 connects to none.
        sni: the server name of the TLS handshake; empty sends none.
        alpn: the protocol that the handshake offers; an Istio gateway resets a connection without its own.
        path: what http gets; an answer of 500 and above says that the service is not ready.
    """

    name: Name
    address: str
    port: UdpPort
    node: NodeName
    kind: CanaryKind = CanaryKind.UDP
    role: CanaryRole = CanaryRole.AUTO
    expect: CanaryExpect = CanaryExpect.ANSWER
    interval: Annotated[Duration, Meta(ge=SECOND // 5, le=MINUTE)] = SECOND
    lookup: ServerName = ""
    control: ServerName = "kubernetes.default.svc.cluster.local"
    connect: Annotated[int, Meta(ge=0, le=65_535, description="0 for none")] = 0
    sni: ServerName = ""
    alpn: Annotated[
        str,
        Meta(
            pattern=r"^[!-~]{0,255}\Z",
            extra={
                "problem": "is no name of a protocol",
                "remedy": "write ASCII without spaces, as in istio",
            },
        ),
    ] = ""
    path: Annotated[
        str,
        Meta(
            pattern=r"^/[!-~]{0,1023}\Z",
            extra={"problem": "is no path", "remedy": "start it with /, without spaces, as in /healthz/ready"},
        ),
    ] = "/"

    @property
    def is_service(self) -> bool:
        """Whether the service is asked by its own protocol."""
        return self.kind in SERVICE_KINDS

    @property
    def resolved_role(self) -> CanaryRole:
        """The role that is declared, or else the one of the port; never AUTO."""
        return _ROLE_OF_PORT.get(self.port, CanaryRole.POD) if self.role is CanaryRole.AUTO else self.role
