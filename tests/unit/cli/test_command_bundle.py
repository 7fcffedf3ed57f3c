"""`meshwatchctl bundle`: everything a maintainer asks for, and nothing that opens anything."""

from __future__ import annotations

import base64
import tarfile

import msgspec
import pytest

from meshwatchd.adapters.storage.event_store import EventStore
from tests.support.example_incidents import HISTORY_LINES

SECRET = base64.b64encode(bytes(range(7, 39))).decode()


@pytest.fixture
def node(tmp_path):
    """The folders of a node, with every kind of secret that one has in them."""
    state = tmp_path / "state"
    store = EventStore(state / "events.jsonl")
    for line in (*HISTORY_LINES, {"event": "x", "at_ns": 1, "private_key": SECRET}):
        store.append(line)
    store.close()
    for name in ("mesh.key", "identity.key", "wireguard.key"):
        (state / name).write_text(SECRET + "\n")
    config = tmp_path / "meshwatchd.toml"
    config.write_text(f'[daemon]\nnode = "b3"\n[auth]\nkey_file = "{state}/mesh.key"\n')
    return ["--config", str(config), "--state", str(state), "--output", str(tmp_path / "out.tar.gz")]


def _contents(arguments):
    found = {}
    with tarfile.open(arguments[-1]) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            found[member.name.removeprefix("out/")] = file.read().decode(errors="replace")
    return found


def test_a_bundle_has_what_a_maintainer_asks_for(room, run, node):
    """And is readable by its maker alone."""
    for line in HISTORY_LINES:
        room.backend.store.append(line)
    code, out, _ = run("bundle", *node)
    files = _contents(node)

    assert 0 == code
    assert {"status.json", "status.txt", "explain.json", "incidents.json", "events.jsonl", "meshwatchd.toml"} <= set(
        files
    )
    assert {"mtu.json", "version.txt", "MISSING.txt", "host-proc-version"} <= set(files)
    assert "new overlay flows die" in files["status.txt"]
    assert "out.tar.gz" in out
    assert files["host-proc-sys-net-ipv4-ip_forward"].strip() in {"0", "1"}
    with tarfile.open(node[-1]) as archive:
        assert {0o600} == {member.mode for member in archive.getmembers()}


@pytest.mark.parametrize("options", [[], ["--anonymize"]])
def test_no_secret_is_in_it(run, node, options):
    """No file of keys is read, and a secret that stands in an event is taken out."""
    run("bundle", *options, *node)
    files = _contents(node)
    assert files
    assert [] == [name for name, text in files.items() if SECRET in text]
    assert '"private_key":"[removed]"' in files["events.jsonl"]


def test_an_anonymous_bundle_tells_the_same_story_of_nobody(run, node):
    """Names of nodes and locations are gone from every file; the fault is not."""
    run("bundle", "--anonymize", *node)
    files = _contents(node)
    status = msgspec.json.decode(files["status.json"])["status"]

    assert status["pairs"][0]["verdict"]["culprit"] in {
        path for each in status["pairs"][0]["paths"] for path in each["relays"]
    }
    assert "overlay-new-flows" in files["events.jsonl"]
    for word in ("onprem", '"b3"', '"b1"', "b1-a1", "10.2.0.11", "192.168.100.13"):
        assert [] == [name for name, text in files.items() if word in text], word


def test_without_a_daemon_the_rest_is_there_and_the_status_says_so(node, capsys, tmp_path):
    """A daemon that does not start is what most reports are about."""
    from meshwatchd.cli.main import main

    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "bundle", *node])
    files = _contents(node)
    assert "daemon: Status" in files["MISSING.txt"]
    assert "events.jsonl" in files
    assert "not in it: daemon" in capsys.readouterr().out


def test_names_of_a_declared_mesh_and_of_hosts_are_gone_without_a_daemon_too(node, tmp_path):
    """Only the configuration tells them then."""
    from meshwatchd.cli.main import main

    nodes = "".join(
        f'[[mesh.node]]\nname = "{place}-fw1"\nlocation = "acme{place}"\nnode_ip = "10.{number}.0.1"\n'
        f'pod_cidr = "10.244.{number}.0/24"\noverlay_ip = "10.244.{number}.0"\nwireguard_ip = "10.4.0.{number}"\n'
        for number, place in enumerate(("paris", "tokyo"), 1)
    )
    locations = "".join(
        f'[[mesh.location]]\nname = "acme{place}"\nleader = "{place}-fw1"\n' for place in ("paris", "tokyo")
    )
    canary = (
        '[[probe.canary]]\nname = "acme-web"\naddress = "10.244.2.9"\nport = 443\nnode = "tokyo-fw1"\nkind = "tls"\n'
        'sni = "shop.acme.example"\n'
    )
    text = (tmp_path / "meshwatchd.toml").read_text().replace('"b3"', '"paris-fw1"')
    discovery = '[discovery]\nendpoint = "vpn.acme-corp.example"\n'
    (tmp_path / "meshwatchd.toml").write_text(text + discovery + locations + nodes + canary)

    assert 3 == main(["--socket", str(tmp_path / "none.sock"), "bundle", "--anonymize", *node])
    files = _contents(node)
    assert "host1" in files["meshwatchd.toml"]
    assert [] == [(name, word) for name, told in files.items() for word in ("paris", "tokyo", "acme") if word in told]


def test_what_cannot_be_read_is_named(run, node, tmp_path):
    """Without a configuration and without a state directory there is still an archive."""
    arguments = ["--config", str(tmp_path / "no.toml"), "--state", str(tmp_path / "no"), *node[4:]]
    code, out, _ = run("bundle", *arguments)
    assert 0 == code
    assert "no.toml" in _contents(node)["MISSING.txt"]
    assert "events.jsonl" in out
