"""Probes on the wire: ordinary UDP sockets, whose packets the kernel's real datapath encapsulates.

    prober       one socket for each fresh probe, one for each pinned session; answers become ReplyReceived
    reflector    listening sockets; requests become answers and RequestReceived
    peers        what both know of a node: its keys, its proven epoch, its share of our answers
    sockets      opening them, the filter in front of them
    stamps       when a packet came, by the kernel's word
    translate    between the wire's words and the model's

Bad packets are counted by reason and never raised; nothing here blocks.
"""
