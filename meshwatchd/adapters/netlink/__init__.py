"""The kernel's routing state: read as a whole, watched, and changed where it is ours.

kernel.py     typed requests over one rtnetlink socket; KernelError is all that comes out of it
decode.py     pyroute2's messages -> our types
ports.py      what each part wants of the kernel
message.py    netlink datagrams -> messages and attributes
compact.py    routes, neighbours, FDB entries as a few bytes each
objects.py    links, addresses and our routes from bytes
rules.py      policy rules from bytes
rule_table.py all of them, read anew when one comes or goes
tables.py     what dumps and notifications do to entries in memory
kinds.py      which tables there are, and the requests for them
monitor.py    the kernel's change notifications, on a socket of their own
dumper.py     dumps, on a socket of their own
mirror.py     both of these -> everything the kernel has, kept up to date
news.py       what the mirror tells of at once: losses of ours, the mesh's device made anew
view.py       the part of it that is told: Snapshot
provision.py  standing objects: difference, order, verification
sweep.py      removal of everything of ours without the daemon
switch.py     the engine's own prepacked override switch; needs none of the others
"""
