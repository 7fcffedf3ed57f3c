"""The command: what it checks, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import msgspec
import pytest

from meshwatchd.model.service_check import ApiFacts
from meshwatchkube.main import EXIT_CONFIG, EXIT_OK, EXIT_UNREACHED, main
from netnslab.kube_api.objects import part, text
from netnslab.kube_api.resources import LEASES
from tests.support.kube import eventually, kubeconfig_text, served


def _config(tmp_path, kubeconfig, more=""):
    path = tmp_path / "kube.toml"
    path.write_text(f'[api]\nkubeconfig = "{kubeconfig}"\n{more}')
    return path


def _lease(api):
    return part(api.store.get(LEASES, "meshwatchd-kube", "kube-system"), "spec")


@pytest.mark.parametrize("verb", [[], ["run"]])
def test_check_reads_everything_and_sends_nothing(tmp_path, verb):
    """Nobody listens at that address."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text("http://127.0.0.1:1"))
    assert EXIT_OK == main(["--config", str(_config(tmp_path, kubeconfig)), "--check", *verb])


def test_what_is_wrong_is_said_in_a_line(tmp_path, capsys):
    """Status 2, which systemd does not start again."""
    assert EXIT_CONFIG == main(["--config", str(tmp_path / "missing.toml"), "--check"])
    assert EXIT_CONFIG == main(["--config", str(_config(tmp_path, tmp_path / "none")), "--check"])
    assert EXIT_CONFIG == main(["--config", str(_config(tmp_path, "", "[lease]\nlenght = 3\n"))])
    lines = capsys.readouterr().err.splitlines()
    assert 3 == len(lines)
    assert "lease.lenght: unknown key" in lines[2]


@pytest.mark.parametrize("kind", ["submariner", "antrea"])
def test_check_remarks_on_a_kind_whose_own_mesh_has_no_standby(tmp_path, capsys, kind):
    """No refusal: where Kilo joins such a cluster there are standbys."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text("http://127.0.0.1:1"))
    config = str(_config(tmp_path, kubeconfig, f'[promotion]\nmode = "dry-run"\nkind = "{kind}"\n'))
    assert EXIT_OK == main(["--config", config, "--check"])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f'remark: promotion.kind: "{kind}" changes no leader on a mesh of {kind}\'s own')
    _config(tmp_path, kubeconfig, f'[promotion]\nkind = "{kind}"\n')
    assert EXIT_OK == main(["--config", config, "--check"])
    assert "" == capsys.readouterr().err, "promotion is off"


def test_canaries_are_printed_for_the_nodes_of_the_cluster(tmp_path, capsys):
    """Or the reason why not."""
    with served(tmp_path) as api:
        config = str(_config(tmp_path, api.kubeconfig))
        assert EXIT_OK == main(["--config", config, "canaries"])
        assert 6 == capsys.readouterr().out.count("[[probe.canary]]")
        api.failing["list", "nodes"] = 403
        assert EXIT_UNREACHED == main(["--config", config, "canaries"])
        assert "the API does not answer: 403 list nodes is refused by the test\n" == capsys.readouterr().err


def test_a_service_is_printed_as_json(tmp_path, capsys, monkeypatch):
    """By a person's kubeconfig, without a configuration file; what is not served is named, and no failure."""
    with served(tmp_path) as api:
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig))
        assert EXIT_OK == main(["--config", str(tmp_path / "none.toml"), "service", "shop.default"])
        facts = msgspec.json.decode(capsys.readouterr().out, type=ApiFacts)
    assert {"ServiceImport", "ServiceExport", "EndpointSlice"} == {gap.kind for gap in facts.gaps}
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    assert EXIT_CONFIG == main(["--config", str(tmp_path / "none.toml"), "service", "shop.default"])
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["service"], ["service", "shop"], ["service", "a/b.c"], ["run", "shop.default"]])
def test_a_service_is_named_behind_its_verb_alone(words, capsys):
    """By name and namespace."""
    with pytest.raises(SystemExit):
        main(words)
    assert "is followed by NAME.NAMESPACE" in capsys.readouterr().err


def test_it_runs_without_a_daemon_and_gives_the_lease_back_on_sigterm(tmp_path):
    """As a process of its own; the daemon may be started later."""
    with served(tmp_path) as api:
        socket = tmp_path / "control.sock"
        more = f'[daemon]\nsocket = "{socket}"\nread_interval = "200ms"\n'
        command = [sys.executable, "-m", "meshwatchkube.main", "--config", str(_config(tmp_path, api.kubeconfig, more))]
        environment = {**os.environ, "NODE_NAME": "a3"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
            eventually(lambda: api.asked["watch", "nodes"], "the watch, which the holder of the Lease has")
            assert text(_lease(api), "holderIdentity").startswith("a3_")
            process.send_signal(signal.SIGTERM)
            _, log = process.communicate(timeout=20)
        assert EXIT_OK == process.returncode
        assert "holderIdentity" not in _lease(api)
    assert ["kube.started", "daemon.refused", "lease.taken", "kube.stopped"] == [
        line.partition('"event":"')[2].partition('"')[0] for line in log.splitlines()
    ]
