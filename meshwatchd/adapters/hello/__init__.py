"""Hellos between daemons: the UDP port they come by, and how they are signed.

    port         datagrams in and out, both families; what is no hello costs next to nothing
    signatures   whose hello it is

The mesh as it was known, for a boot with every peer down, is kept by `adapters.storage.mesh_file`.

What is made of them is decided in `core.membership.roster`; `runtime.discovery` ties the two together.
"""
