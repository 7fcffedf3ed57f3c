"""Which nodes and locations there are, who leads, and whose word counts.

`roster` makes one mesh of all hellos by pure functions (`location`, `leader`, `mesh_builder`), so that nodes which have
heard the same agree. `replay_protection` and `validation` decide which hellos count, `hello_schedule` and
`peer_exchange` who is greeted when.

In: hellos, this node's own view. Out: `MeshSettings`, and hellos to send.
"""
