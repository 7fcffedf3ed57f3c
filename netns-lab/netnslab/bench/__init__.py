"""Benchmarks of the probe engine beside BIRD 2's BFD and FRR's bfdd: `python -m netnslab.bench [NAMES...]`, as root.

    detection   silent faults of veth, VXLAN and WireGuard links: detection, outage, switch
    pooled      four sessions through one leader
    cpu         processor time and memory of both ends at 50 and 200 sessions
    scale       1 000 peers with four sessions each; cost of a session by their number
    lateness    how late probes leave with both cores busy
    flood       the same under 100 000 garbage packets a second
    busy        minutes with both cores busy: nobody may be accused

A benchmark is a command, never a test: a loaded machine is no broken promise. Figures of one run are compared with
each other, because a machine differs from itself from minute to minute by tens of per cent. Every run writes
build/bench/NAME.json with the machine, its load, all versions, and how each figure was taken.

The daemons that are compared run in namespaces that belong to the run and end with it. Ours is the package
`enginerig`: the daemon's own loop, adapters and core under a list of sessions.
"""
