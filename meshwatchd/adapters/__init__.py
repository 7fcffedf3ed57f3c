"""The only code that touches the world, one package per neighbour.

Netlink, WireGuard, probe sockets, taps, the control socket, metrics, systemd. An adapter translates once:
kernel structures into model types on the way in, commands into system calls on the way out, OSError and
NetlinkError into errors that say which operation on which object failed. It decides nothing; whatever
deserves a decision is handed to the core as an event.
"""
