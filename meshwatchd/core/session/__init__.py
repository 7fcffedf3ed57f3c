"""Whether one flow class to one peer works, and what sessions over the same leg say together.

`session` is BFD's state machine with a suspicion in between, `cusum` the sequential test, `class_sessions` the sessions
of one flow class over a leg, `shared_risk_group` the test over all sessions of a path, `rtt_estimator` the delay,
`source_ports` the walk that keeps fresh flows fresh.

In: answers and misses with their instants. Out: states, and whether a path is DOWN.
"""
