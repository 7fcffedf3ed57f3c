"""Which mesh is in force, and how another one replaces it.

`topology_builder` makes a topology of a kernel snapshot, `mesh_diff` says what two meshes have in common, `mesh_update`
puts the new one in force where it differs, and `engine_state` holds the result. `banners` tells others what this node
sees, and takes in what they see. `agent_leave` takes this node out of service while the mesh's own agent is away from
it.

In: kernel snapshots, banners of peers, and results of kernel changes. Out: session tables, this node's banner,
pre-provisioned state to ensure, facts about the topology.
"""
