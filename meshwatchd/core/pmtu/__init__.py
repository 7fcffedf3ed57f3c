"""What size of packet each path carries, in both directions.

A `session` for each layer of each path looks with one full-size probe, repeats with a `probe_round`, and narrows the
limit down with `search` (RFC 8899). `expected_mtu` is what the devices promise; `verdict` names the place.

In: answers to size probes, the snapshot's devices. Out: size probes, size faults, what `meshwatchctl mtu` shows.
"""
