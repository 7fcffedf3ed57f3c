"""The control socket: Varlink, so that nobody has to learn a protocol of ours.

A message is one JSON object and a NUL byte (varlink.org); `varlinkctl introspect` and `varlinkctl call` of systemd can
talk to it as well as meshwatchctl. The codec is ours because it is forty lines; the `varlink` package of PyPI serves
each client with a thread or a process, which the agent's one loop has no place for.

Reading is open to whom the socket's mode lets in (root and its group), acting to root alone, which the kernel tells
(SO_PEERCRED), not the client. Members of the group meshwatch-operators may pin and drain as well: a program that needs
no more than that, as meshwatchd-kube, need not be root.
"""
