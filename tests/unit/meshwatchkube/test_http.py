"""One failure is one exception, whatever the API server, its proxy or the line to it does."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest

from meshwatchd.model.errors import ConfigError
from meshwatchkube import exec_plugin
from meshwatchkube.http import CONFLICT, FORBIDDEN, NOT_FOUND, UNREACHED, ApiError, connect
from meshwatchkube.requests import NODES, Request
from tests.support.kube import kubeconfig_text, served

GET_B1 = Request(method="GET", path=f"{NODES}/b1")


@pytest.fixture
def api(tmp_path):
    """Six Nodes."""
    with served(tmp_path) as cluster:
        yield cluster


def _refusal(http, request=GET_B1):
    with pytest.raises(ApiError) as caught:
        http.send(request)
    return caught.value


def test_an_answer_is_its_body(api):
    """By a kubeconfig."""
    http = connect(str(api.kubeconfig), 5)
    assert b'"name": "b1"' in http.send(GET_B1)
    http.close()


def test_what_the_api_server_refuses_has_its_words(api):
    """And the status, by which callers go."""
    http = connect(str(api.kubeconfig), 5)
    assert NOT_FOUND == _refusal(http, Request(method="GET", path=f"{NODES}/b9")).status
    stale = Request(method="PATCH", path=f"{NODES}/b1", content_type="application/merge-patch+json")
    stale = Request(**{**_fields(stale), "body": {"metadata": {"resourceVersion": "1", "labels": {"x": "y"}}}})
    assert CONFLICT == _refusal(http, stale).status
    api.failing["get", "nodes"] = 403
    forbidden = _refusal(http)
    assert FORBIDDEN == forbidden.status
    assert "403 get nodes is refused by the test" == str(forbidden)
    http.close()


def _fields(request):
    return {name: getattr(request, name) for name in request.__slots__}


def test_slow_answers_end_after_the_timeout(api):
    """They are not waited for."""
    http, api.delay_s = connect(str(api.kubeconfig), 0.2), 3.0
    began = time.monotonic()
    assert UNREACHED == _refusal(http).status
    assert time.monotonic() - began < 2
    http.close()


def test_nobody_at_all_is_a_failure_too(tmp_path):
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    path = tmp_path / "k"
    path.write_text(kubeconfig_text(f"http://127.0.0.1:{port}"))
    http = connect(str(path), 1)
    assert UNREACHED == _refusal(http).status
    with pytest.raises(ApiError):
        list(http.lines(NODES, {}))
    http.close()


def test_an_answer_that_is_none(tmp_path):
    """Something else listens there."""
    listening = socket.create_server(("127.0.0.1", 0))

    def babble():
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"SSH-2.0-OpenSSH\r\n")

    thread = threading.Thread(target=babble)
    thread.start()
    path = tmp_path / "k"
    path.write_text(kubeconfig_text(f"http://127.0.0.1:{listening.getsockname()[1]}"))
    http = connect(str(path), 2)
    assert UNREACHED == _refusal(http).status
    thread.join()
    listening.close()
    http.close()


def test_a_watch_is_refused_with_the_servers_words(api):
    """Not with an empty stream."""
    api.failing["watch", "nodes"] = 500
    http = connect(str(api.kubeconfig), 5)
    with pytest.raises(ApiError, match="500 watch nodes is refused"):
        list(http.lines(NODES, {"watch": "true"}))
    http.close()


@pytest.mark.parametrize(
    "text", ["", "[", "{}", '{"clusters": 3}', kubeconfig_text("http://x").replace('context": "x"', 'context": "z"')]
)
def test_a_kubeconfig_that_leads_nowhere_is_a_mistake_of_the_configuration(tmp_path, text):
    """Named with the file."""
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(ConfigError, match=str(path)):
        connect(str(path), 1)


def test_neither_file_nor_service_account(tmp_path):
    """Nobody runs this outside of a pod by chance."""
    with pytest.raises(ConfigError, match=r"set api\.kubeconfig"):
        connect("", 1)
    with pytest.raises(ConfigError):
        connect(str(tmp_path / "missing"), 1)


@pytest.mark.parametrize("printed", ["", "no network", "{}", '{"status": null}'])
def test_an_exec_plugin_that_prints_no_token_is_a_failure_of_the_request(tmp_path, printed):
    """It asks a cloud for one, in the middle of an outage; the thread that watches Nodes must not end for it."""
    http = connect(_with_plugin(tmp_path, "printf", "%s", printed), 1)
    assert UNREACHED == _refusal(http).status
    with pytest.raises(ApiError):
        list(http.lines(NODES, {}))
    http.close()


def test_an_exec_plugin_that_hangs_is_a_failure_of_the_request(tmp_path, monkeypatch):
    """Neither thread waits for it for long; sockets have their own timeouts, it has none."""
    monkeypatch.setattr(exec_plugin, "LEAST_S", 0.0)
    begun = tmp_path / "begun"
    http = connect(_with_plugin(tmp_path, "/bin/sh", "-c", f"echo $$ >> {begun}; exec sleep 60"), 0.5)
    began = time.monotonic()
    refusal = _refusal(http)
    assert (UNREACHED, True) == (refusal.status, "exec plugin /bin/sh has not ended after 0.5 s" in str(refusal))
    with pytest.raises(ApiError, match="has not ended"):
        list(http.lines(NODES, {}))
    assert time.monotonic() - began < 5
    assert [False, False] == [Path(f"/proc/{process}").exists() for process in begun.read_text().split()]
    http.close()


def test_a_token_of_an_exec_plugin_is_asked_for_until_it_is_refused(api, tmp_path):
    """Each run costs seconds, and tokens end."""
    asked = tmp_path / "asked"
    token = json.dumps({"status": {"token": "secret"}})
    script = f"echo >> {asked}; echo '{token}'"
    http = connect(_with_plugin(tmp_path, "/bin/sh", "-c", script, url=f"http://127.0.0.1:{api.port}"), 5)
    for _ in range(2):
        assert b'"name": "b1"' in http.send(GET_B1)
    assert "\n" == asked.read_text()
    api.failing["get", "nodes"] = 401
    assert 401 == _refusal(http).status
    assert "\n\n" == asked.read_text()
    http.close()


def _with_plugin(folder, command, *words, url="http://127.0.0.1:1"):
    """A kubeconfig whose user is proven by a program."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": command, "args": words}
    path = folder / "k"
    path.write_text(kubeconfig_text(url).replace('"user": {}', f'"user": {{"exec": {json.dumps(plugin)}}}'))
    return str(path)
