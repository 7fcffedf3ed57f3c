"""What meshwatchd knows, in Kubernetes: failovers that last, and nodes that get no pods while their overlay is broken.

    meshwatchd's control socket --control--> Mesh ----+
                                                      +--> decisions (pure) --> actions --> control, api
    Nodes, one Lease           --api-------> Cluster -+

meshwatchd heals packets alone and knows nothing of this package. Each process here reads the verdicts of the daemon on
its own node; one of them, which holds the Lease, writes to the API. What it must not forget stands in an annotation
of that Lease, so that another process can go on.

    decide      all decisions together: a Look in, actions out
    promotion   when the leader of a location shall be another node, and by which steps
    detour      where traffic goes meanwhile
    gating      conditions, taints and cordons of nodes whose overlay is broken
    leaders     what makes a node the leader: Kilo's, Submariner's and Antrea's annotations and labels, or a program
    lease       who writes
    canaries    sections for meshwatchd.toml that ask API servers and kubelets
    mesh, cluster, memory   the two pictures and what is remembered: a Look (`look`)
    control                 the adapter to the daemon
    api, watch, http        the adapter to the API; `requests` says what an action is on the wire
    run, main               the process
"""
