"""Crafted packets that ask one layer one question.

The continuous probes are ordinary sockets, because real traffic is. When they have told that something is
wrong, packets built by hand (VXLAN around the local device, a frame injected into it, bare IPIP) tell where.
They are built with scapy, which is large and slow to import, hence the short-lived process of their own.
"""
