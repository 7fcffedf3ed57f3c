"""Canaries as they are declared: what is asked behind a node of the mesh, and what satisfies."""

from __future__ import annotations

from enum import StrEnum
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import Meta

from meshwatchd.model.ids import NodeName
from meshwatchd.model.setting_types import Duration, Name, UdpPort
from meshwatchd.model.units import MINUTE, SECOND


class CanaryKind(StrEnum):
    """How a canary is asked."""

    UDP = "udp"
    TCP = "tcp"
    BULK = "bulk"


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
            garbage, a discard server (RFC 863) best of all.
        role: what its silence is called: pod-unreachable, kubelet-unreachable or apiserver-unreachable. auto goes by
            the port: 10250 is a kubelet's, 6443 an API server's, any other a pod's.
        expect: what satisfies. answer takes whatever proves the way there and back, a refused connection (RST)
            included, as the host discovery of port scanners does; service wants the connection.
        interval: between questions. Somebody else's service answers: five a second from every node are enough.
    """

    name: Name
    address: str
    port: UdpPort
    node: NodeName
    kind: CanaryKind = CanaryKind.UDP
    role: CanaryRole = CanaryRole.AUTO
    expect: CanaryExpect = CanaryExpect.ANSWER
    interval: Annotated[Duration, Meta(ge=SECOND // 5, le=MINUTE)] = SECOND

    @property
    def resolved_role(self) -> CanaryRole:
        """The role that is declared, or else the one of the port; never AUTO."""
        return _ROLE_OF_PORT.get(self.port, CanaryRole.POD) if self.role is CanaryRole.AUTO else self.role
