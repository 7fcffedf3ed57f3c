"""Probes on the wire: ordinary UDP sockets, whose packets the kernel's real datapath encapsulates.

    prober       sends probes of all sessions; answers become ReplyReceived
    reflector    listening sockets; requests become answers and RequestReceived
    peers        what both know of a node: its keys, its proven epoch, its share of our answers
    session      a session's packets
    ports        one socket for each source port in use, shared by all sessions
    sockets      opening them, the filter in front of them
    mmsg         many datagrams with one system call
    address      addresses as the kernel has them
    delivery     how a request came, and how its answer goes back
    stamps       when a packet came, by the kernel's word
    translate    between the wire's words and the model's

Bad packets are counted by reason and never raised; nothing here blocks.
"""
