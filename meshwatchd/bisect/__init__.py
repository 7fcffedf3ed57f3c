"""Where exactly do packets to one peer die? Taps, crafted packets, and a table that reads them.

The continuous probes are ordinary sockets, because real traffic is. When they have told that something is wrong, one
short run tells where. It taps the overlay device and the device below it, and sends probes around one part of the local
stack after the other:

                  route, neighbour    overlay device    netfilter, routing    queue    NIC, wire, peer
    KERNEL              x                   x                   x               x             x
    INJECTED                                x                   x               x             x
    CRAFTED                                                     x               x             x
    FRAMED                                                                      x             x

    __main__     the process                     run        the order of things
    leg          which way, by the mesh          stack      the same, by the kernel's tables
    probes       sockets and answers             senders    crafted packets' ways in; craft builds them with scapy
    peer         the far end's taps, if asked   conclude   gathered -> observation -> signs -> matrix -> evidence

Taps themselves, and questions to the kernel, are adapters.tap.

It changes nothing and leaves nothing behind. Its own process, because scapy is large and slow to import.
"""
