"""A stand-in for the Kubernetes API: plain HTTP and JSON, objects in memory, nothing behind them.

    store = Store((NODES, LEASES))                  # what there is; objects are checked for their names only
    store.create(NODES, {"metadata": {"name": "b1"}})
    with KubeApi(store, [listening_socket]):        # one store, served at as many addresses as needed
        ...                                         # client-go, kubectl: http://127.0.0.1:PORT

It speaks what clients of client-go's kind rely on: discovery, lists with a resourceVersion, watches with bookmarks,
initial events (`sendInitialEvents`) and 410 Gone, conflicts, the three kinds of patches, the status subresource. It has
no authentication, admission, schemas, controllers or protobuf; pages of a list (`limit`) are of the list as it is when
each is asked for. A gate given to `KubeApi` makes denials, failures and delay.

    request.py     URL and method to a Request
    store.py       objects, versions, history
    patches.py     merge patch (RFC 7396), JSON patch (RFC 6902), strategic merge patch
    discovery.py   what a client asks first
    resources.py   kinds of objects that several users have in common
    watching.py    one watch: from a version to the end of the connection
    server.py      HTTP

Source: kubernetes.io/docs/reference/using-api/api-concepts; what Kilo asks for: squat/kilo 0.7.0, pkg/k8s/backend.go.
"""
