"""What the kernel's tables should say, and what is wrong with them.

`expected_entries` derives the right content from the best source there is, `overlay_entries`, `wireguard` and `host`
compare it with the kernel, `confirmation` waits until a difference has stood for its time, `findings` tells it as a
fault, and `repair` plans what mends it.

In: the agent's picture of the kernel, peers' own faults. Out: findings, and repairs as netlink operations.
"""
