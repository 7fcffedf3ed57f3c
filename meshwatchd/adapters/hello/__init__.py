"""Hellos between daemons: the UDP port they come by, and the file in which what they said is kept.

    port    datagrams in and out, both families; what is no hello costs next to nothing
    cache   the mesh as it was known, for a boot with every peer and the Kubernetes API down

What is made of them is decided in `core.membership.roster`; `runtime.discovery` ties the two together.
"""
