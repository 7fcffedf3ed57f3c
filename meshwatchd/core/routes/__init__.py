"""Which kernel objects a path needs.

`planner` derives devices, tables, routes and rules of every path, and the policy rule that is a failover;
`policy_rules` says whose the rules in a kernel are.

In: a topology and settings. Out: plans as values; nothing here touches a kernel.
"""
