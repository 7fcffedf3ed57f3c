"""Questions about one service of several clusters, from this host: DNS, connections, the API, the last answer.

    cluster_dns    which DNS server this node's pods have
    dns            one question, by a socket of its own
    connect        one port: SYN, full segments, TLS, HTTP
    tls            a handshake with name and protocol, and the certificate's end
    api            what `meshwatchd-kube service` reads
    memory         the addresses that the name had before
    gather         all of it at once, within a limit of time

Only `meshwatchctl service` imports this package. It brings dnspython, which neither engine nor agent loads.
"""
