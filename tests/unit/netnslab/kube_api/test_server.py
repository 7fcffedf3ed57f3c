"""The store over HTTP, as clients meet it."""

import http.client
import json
import socket
from contextlib import closing, contextmanager

from netnslab.kube_api.objects import ApiError
from netnslab.kube_api.resources import NODES
from netnslab.kube_api.server import KubeApi, let_pass
from netnslab.kube_api.store import Store

TIMEOUT_S = 20


@contextmanager
def _served(gate=let_pass):
    store = Store((NODES,))
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with KubeApi(store, [listening], gate=gate), closing(_connect(port)) as client:
        yield store, client


def _connect(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)


def _ask(client, method, path, body=None, *, media_type="application/json"):
    text = body if body is None or isinstance(body, str) else json.dumps(body)
    client.request(method, path, text, {"Content-Type": media_type})
    answer = client.getresponse()
    return answer.status, json.loads(answer.read())


def test_an_object_is_made_read_changed_and_deleted():
    """On one connection, which stays open."""
    with _served() as (_, client):
        assert 201 == _ask(client, "POST", "/api/v1/nodes", {"metadata": {"name": "b1"}})[0]
        patch = {"metadata": {"annotations": {"kilo.squat.ai/leader": ""}}}
        code, node = _ask(
            client, "PATCH", "/api/v1/nodes/b1", patch, media_type="application/strategic-merge-patch+json"
        )
        assert (200, {"kilo.squat.ai/leader": ""}) == (code, node["metadata"]["annotations"])
        code, replaced = _ask(client, "PUT", "/api/v1/nodes/b1", {**node, "spec": {"unschedulable": True}})
        assert (200, {"unschedulable": True}) == (code, replaced["spec"])
        assert (409, "Conflict") == _reason(_ask(client, "PUT", "/api/v1/nodes/b1", node))
        assert replaced == _ask(client, "GET", "/api/v1/nodes/b1")[1]
        listed = _ask(client, "GET", "/api/v1/nodes")[1]
        assert ("NodeList", [replaced]) == (listed["kind"], listed["items"])
        assert "Success" == _ask(client, "DELETE", "/api/v1/nodes/b1")[1]["status"]
        assert (404, "NotFound") == _reason(_ask(client, "GET", "/api/v1/nodes/b1"))


def test_a_list_has_pages_where_they_are_asked_for():
    """The last one says that there is no other."""
    with _served() as (store, client):
        for name in ("b1", "b2", "b3"):
            store.create(NODES, {"metadata": {"name": name}})
        first = _ask(client, "GET", "/api/v1/nodes?limit=2")[1]
        assert (["b1", "b2"], 1) == (
            [each["metadata"]["name"] for each in first["items"]],
            first["metadata"]["remainingItemCount"],
        )
        last = _ask(client, "GET", f"/api/v1/nodes?limit=2&continue={first['metadata']['continue']}")[1]
        assert ["b3"] == [each["metadata"]["name"] for each in last["items"]]
        assert "continue" not in last["metadata"]
        assert 3 == len(_ask(client, "GET", "/api/v1/nodes")[1]["items"])


def test_a_client_that_sends_something_else_is_told():
    """Protobuf, text that is no JSON, a place that there is not."""
    with _served() as (_, client):
        assert (415, "UnsupportedMediaType") == _reason(
            _ask(client, "POST", "/api/v1/nodes", "k8s", media_type="application/vnd.kubernetes.protobuf")
        )
        assert (400, "BadRequest") == _reason(_ask(client, "POST", "/api/v1/nodes", "{"))
        assert (404, "NotFound") == _reason(_ask(client, "GET", "/openapi/v2"))


def test_discovery_and_health_are_answered():
    """Before anything else is asked."""
    with _served() as (_, client):
        assert "APIResourceList" == _ask(client, "GET", "/api/v1?timeout=32s")[1]["kind"]
        client.request("GET", "/readyz")
        assert b"ok" == client.getresponse().read()


def test_a_watch_hears_at_once_what_another_connection_does():
    """Line by line, in chunks; it ends with the server."""
    with _served() as (store, client), closing(_connect(client.port)) as watching:
        watching.request("GET", f"/api/v1/nodes?watch=true&resourceVersion={store.version}")
        stream = watching.getresponse()
        _ask(client, "POST", "/api/v1/nodes", {"metadata": {"name": "b1"}})
        event = json.loads(stream.readline())
        _ask(client, "DELETE", "/api/v1/nodes/b1")
        assert (("ADDED", "b1"), "DELETED") == (
            (event["type"], event["object"]["metadata"]["name"]),
            json.loads(stream.readline())["type"],
        )


def test_a_gate_refuses_in_the_words_of_rbac():
    """It sees who wants what; everybody else passes."""

    def gate(request):
        if request.verb == "patch":
            message = f"{request.user_agent or 'somebody'} cannot patch {request.resource.plural}"
            raise ApiError(403, message)

    with _served(gate) as (_, client):
        _ask(client, "POST", "/api/v1/nodes", {"metadata": {"name": "b1"}})
        assert (403, "Forbidden") == _reason(
            _ask(client, "PATCH", "/api/v1/nodes/b1", {}, media_type="application/merge-patch+json")
        )
        assert 200 == _ask(client, "GET", "/api/v1/nodes/b1")[0]


def test_it_does_not_outlive_its_block():
    """Nobody answers at that address afterwards, although a watch was open."""
    with _served() as (_, client):
        port = client.port
        watching = _connect(port)
        watching.request("GET", "/api/v1/nodes?watch=true&sendInitialEvents=true&allowWatchBookmarks=true")
        assert b"BOOKMARK" in watching.getresponse().readline()
    watching.close()
    with closing(socket.socket()) as knocking:
        assert 0 != knocking.connect_ex(("127.0.0.1", port))


def _reason(answer):
    code, status = answer
    assert code == status["code"]
    return code, status["reason"]
