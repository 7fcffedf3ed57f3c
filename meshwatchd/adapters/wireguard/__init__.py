"""Standby links: WireGuard devices of our own, made by the kernel or carried by wireguard-go.

identity.py   the private key file, and the public key that belongs to it
conffile.py   the configuration as a file that wg-quick and people can read
state.py      what a device is configured with, and what it reports
genl.py       both over generic netlink (kernel devices)
uapi.py       both over the UNIX socket of a userspace implementation
listener.py   whose program serves such a socket
glance.py     the peers alone, for the engine, which waits for nobody
process.py    starting and ending wireguard-go
registry.py   which devices are ours, across restarts
device.py     makes a device equal to a StandbyLink, disturbing nothing that is equal already
"""
