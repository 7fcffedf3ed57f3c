"""The lines of the catalogue about Liqo: this node's own device and routes, its leg to the gateway pod, and the rest.

Confirm times are what Liqo itself needs: its fabric puts a lost route back within a second, and a gateway pod that is
replaced is gone for some ten, until all nodes send to the new one.
"""

from __future__ import annotations

from meshwatchd.model.fault_codes import Fault, FaultCode
from meshwatchd.model.ids import Layer
from meshwatchd.model.underlay_faults import CARRIER_LOST

_SECOND = 1_000_000_000

LIQO_FAULTS = (
    Fault(
        code=FaultCode.LIQO_FABRIC_ADDRESS_MISSING,
        layer=Layer.OVERLAY,
        title="Liqo's device to another cluster has lost its address, and the kernel has dropped its routes with it",
        remedy="restart Liqo's fabric pod on that node, or let meshwatchd put address and routes back (repair.reseed)",
        confirm_ns=5 * _SECOND,
        about="Liqo makes its Geneve devices anew when the gateway pod gets another address, and may leave them without"
        " the address in 10.80.0.0/16 (liqo#3300). It watches routes and no addresses. All packets from that node to"
        " the other cluster are lost, while `liqoctl info peer` says Healthy: that is about the gateway pods alone.",
    ),
    Fault(
        code=FaultCode.LIQO_ROUTE_MISSING,
        layer=Layer.OVERLAY,
        title="nothing leads to the gateway pod of another cluster: a route, a rule or the device of Liqo's is gone",
        remedy="restart Liqo's fabric pod on that node, or let meshwatchd put routes back ([repair] route)",
        confirm_ns=10 * _SECOND,
        about="A rule sends packets to the other cluster to a table of Liqo's, whose routes are gone; or they are there"
        " and the rule is gone. Packets follow the next rule, mostly the default route, out of the cluster. Liqo hears"
        " of routes that are deleted, and not of those that vanish with a device or an address, nor of rules.",
    ),
    Fault(
        code=FaultCode.LIQO_GATEWAY_STALE,
        layer=Layer.OVERLAY,
        title="Liqo's device sends to a gateway pod that does not answer any more at that address",
        remedy="kubectl get pods -A -l networking.liqo.io/component=gateway -o wide: where the pod has another address,"
        " delete it, which has all nodes send to the new one; where it has the same, look at the CNI between",
        depends_on=CARRIER_LOST,
        confirm_ns=20 * _SECOND,
        about="The pod's own address among pods and its address inside of Geneve answered while all was well, and are"
        " both silent. The pod has gone or has another address, which this node's device does not know; or the"
        " cluster's own network does not reach it.",
    ),
    Fault(
        code=FaultCode.LIQO_GATEWAY_LEG,
        layer=Layer.OVERLAY,
        title="the leg from a node to Liqo's gateway pod is dead",
        remedy="allow UDP 6091 between that node and the pod's node; kubectl rollout restart the gateway's deployment,"
        " after kubectl cordon of its node where that is at fault",
        depends_on=CARRIER_LOST,
        confirm_ns=5 * _SECOND,
        about="The gateway pod's address inside of Geneve answered through this node's device, and is silent, while the"
        " pod itself answers at its address among pods. Liqo checks from gateway pod to gateway pod only, and says"
        " Healthy.",
    ),
    Fault(
        code=FaultCode.LIQO_TUNNEL_DEAD,
        layer=Layer.RELAY,
        title="Liqo's gateway pod answers, and nothing behind it does",
        remedy="liqoctl info peer in both clusters; kubectl rollout restart the gateway's deployment here, then there",
        depends_on=CARRIER_LOST,
        confirm_ns=5 * _SECOND,
        about="All addresses of the other cluster in `[liqo] beyond` that had answered are silent at once, while the"
        " gateway pod answers through this node's device: the tunnel between the gateway pods, or what is behind the"
        " other one. Nodes behind a leg that is dead say nothing of the tunnel.",
    ),
)
"""What the audit finds; the order is that of the codes."""
