"""netnslab: whole Kilo and flannel meshes in network namespaces, on one machine, with faults to inject.

    with Lab.up("kilo-flannel") as lab, faults.leader_dead(lab, "b1"):
        lab.pod("b3").run(["ping", "-c1", lab.pod("a3").ip])

How a lab is made, from the outside in:

    topologies/*.toml, topology_file, topology       what there is: locations, nodes, addresses (pure)
    wan, overlay, flannel, cilium, pods,
    fabric, kilo, wg_quick, daemon_config            what that means in the kernel and in files (pure text)
    build                                            puts that text into effect in namespaces
    syscalls, namespaces, inhabitant, wireguard      the few things that touch Linux
    ownership, process, shutdown                     who owns what, so that a crash leaves nothing for long
    site, lab                                        who lives there; up, attach, down
    fault_plans, faults                              what goes wrong, and the verdict it deserves
    state_plans, filter_plans, state_faults          the same for the catalogue; node_state restores and compares
    kilo_agents                                      what Kilo itself does: another leader, an agent that starts again
    removals                                         somebody removes what the daemons have put there
    storms                                           random troubles of networks and daemons that overlap
    draw, commands, __main__                         for people
    backends                                         which kernel all this runs on

Nodes are network, mount and host name namespaces, so each has its own kilo0, flannel.1, /run/wireguard and
/etc/meshwatchd under the real names. Nothing of the machine's own network is touched. The lab does not import
the daemon it judges.
"""

from __future__ import annotations

from netnslab.errors import LabError, TopologyError
from netnslab.inhabitant import Inhabitant
from netnslab.lab import Lab, running
from netnslab.topology import Location, Node, Topology
from netnslab.topology_file import available, load

__all__ = [
    "Inhabitant",
    "Lab",
    "LabError",
    "Location",
    "Node",
    "Topology",
    "TopologyError",
    "available",
    "load",
    "running",
]
