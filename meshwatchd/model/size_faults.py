"""The lines of the fault catalogue that only large packets meet; `core.pmtu.pmtu` finds them."""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode, Severity
from meshwatchd.model.ids import Layer

SIZE_FAULTS = (
    Fault(
        code=FaultCode.MTU_BLACK_HOLE,
        layer=Layer.RELAY,
        title="large packets vanish while small ones pass",
        remedy="look at the MTUs on the way and at filters of ICMP; `meshwatchctl mtu` has the number to configure",
        about="Pings, handshakes and health checks are small and pass; image pulls, TLS and kubectl logs hang."
        " Something on the way carries less than the devices promise, and the ICMP message that would say so is"
        " filtered. Probes of full size with DF set are lost while small ones of the same flow are answered.",
    ),
    Fault(
        code=FaultCode.MTU_MISCONFIGURED,
        layer=Layer.OVERLAY,
        severity=Severity.WARNING,
        title="a device's MTU is more than what is below it carries in one piece, or less than its peers count on",
        remedy="give that device the MTU that the verdict or `meshwatchctl mtu` names",
        about="VXLAN costs 50 bytes (70 over IPv6), WireGuard 60 (80). Where a device promises more than what is left,"
        " its outer packets are fragmented: slower, and lost wherever fragments are filtered. Where somebody made"
        " flannel.1 smaller on one node, what its peers send arrives, and answers as large do not leave.",
    ),
    Fault(
        code=FaultCode.MTU_POISONED,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="the kernel has cached a path MTU that is smaller than what the path carries",
        remedy="ip route flush cache; if it comes back, look for whoever sends ICMP fragmentation-needed messages",
        about="An ICMP message has made the kernel remember a smaller size for ten minutes, and every TCP connection"
        " to that address obeys. Probes do not: they have measured that more passes.",
    ),
    Fault(
        code=FaultCode.STANDBY_MTU_SMALLER,
        layer=Layer.RELAY,
        severity=Severity.WARNING,
        title="a standby path carries less than the path in use: large packets would vanish after a failover",
        remedy="look at the MTUs between the standby's relays; `meshwatchctl mtu` has the number",
        about="Each standby is measured at full size while it is idle, since a failover must not turn an outage into a"
        " black hole. A broken path is left for it all the same: small packets are more than none.",
    ),
    Fault(
        code=FaultCode.FRAGMENTS_DROPPED,
        layer=Layer.UNDERLAY,
        severity=Severity.WARNING,
        title="fragments are dropped while whole packets pass",
        remedy="admit IP fragments between the nodes, or keep every tunnel's MTU below what passes in one piece",
        about="VXLAN and WireGuard clear DF on their outer packets, so what is too large travels in fragments, and"
        " many firewalls and clouds drop those. The switch mtu.fragments turns the question off where this is known.",
    ),
)
"""In the order in which they are looked for."""
