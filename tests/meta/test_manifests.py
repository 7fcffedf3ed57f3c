"""The manifests are what an API server takes, ask for no more than the code does, and name what exists."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from lightkube import codecs

from meshwatchd.config.load import DEFAULT_PATH
from meshwatchd.model.settings import Settings
from meshwatchd.runtime.container import KEPT
from meshwatchkube.load import load
from meshwatchkube.requests import EVENTS, NODES
from meshwatchkube.settings import LeaseSettings
from scripts.generate.alerts import ALERTS
from scripts.packages.image import PROCESSES
from scripts.talos_extension.products import DAEMON
from tests.meta.tree import ROOT

BASE = ROOT / "kube" / "manifests" / "base"
OPERATORS_KINDS = {"PodMonitor", "PrometheusRule"}
"""Of the Prometheus operator, whose schemas no package here has."""


def _documents() -> Iterator[tuple[str, dict[str, Any]]]:
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    for name in kustomization["resources"]:
        for document in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8")):
            yield f"{name}: {document['kind']} {document['metadata'].get('namespace', '')}", document


DOCUMENTS = dict(_documents())


def _of(kind: str, namespace: str = "kube-system") -> dict[str, Any]:
    (found,) = (
        each
        for each in DOCUMENTS.values()
        if each["kind"] == kind and each["metadata"].get("namespace", namespace) == namespace
    )
    return found


def test_the_base_holds_every_file_of_its_folder():
    """One that is left out is in nobody's cluster."""
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text(encoding="utf-8"))
    generated = [name for each in kustomization["configMapGenerator"] for name in each["files"]]
    named = {*kustomization["resources"], *generated, "kustomization.yaml"}
    assert named == {path.name for path in BASE.iterdir()}


@pytest.mark.parametrize("name", [name for name, each in DOCUMENTS.items() if each["kind"] not in OPERATORS_KINDS])
def test_each_object_is_of_its_schema(name):
    """Decoded into the types that are generated from the API's schema nothing is lost: no field is unknown there."""
    document = DOCUMENTS[name]
    decoded = json.loads(msgspec.json.encode(codecs.from_dict(document)))
    assert document == _shared(decoded, document)


def _shared(decoded: Any, document: Any) -> Any:
    """Of what was decoded the part that the document has; a field that was not decoded is missing in it."""
    if isinstance(document, dict):
        return {key: _shared(decoded[key], value) for key, value in document.items() if key in decoded}
    if isinstance(document, list):
        return [_shared(left, right) for left, right in zip(decoded, document, strict=True)]
    return decoded


def test_a_field_that_no_schema_knows_is_found():
    """The test itself can fail."""
    spoiled = json.loads(json.dumps(_of("DaemonSet")))
    spoiled["spec"]["template"]["spec"]["hostNetworks"] = True
    decoded = json.loads(msgspec.json.encode(codecs.from_dict(spoiled)))
    assert spoiled != _shared(decoded, spoiled)


def test_the_daemon_depends_on_no_cluster():
    """Neither its network nor its DNS nor its API; it has capabilities and is not privileged."""
    spec = _of("DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert (True, "Default", False) == (spec["hostNetwork"], spec["dnsPolicy"], spec["automountServiceAccountToken"])
    security = container["securityContext"]
    assert {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW", "SYS_NICE", "IPC_LOCK"]} == security["capabilities"]
    assert "privileged" not in security
    assert "args" not in container


def test_the_daemon_finds_what_it_reads_and_so_does_the_command_line():
    """The configuration in its usual place; what overlays tell, of the host and for reading; all of it in the image."""
    spec = _of("DaemonSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    config = mounts[str(DEFAULT_PATH)]
    of_host = {each["name"]: each["hostPath"]["path"] for each in spec["volumes"] if "hostPath" in each}
    settings = Settings().daemon

    assert ("meshwatchd.toml", True) == (config["subPath"], config["readOnly"])
    assert str(DEFAULT_PATH).removeprefix("/") in DAEMON.files
    assert {settings.state_dir, settings.runtime_dir, "/run/flannel", "/run/cilium"} == set(of_host.values())
    assert all(path == of_host[mounts[path]["name"]] for path in of_host.values())
    assert {"/run/flannel", "/run/cilium"} == {path for path in of_host.values() if mounts[path].get("readOnly")}
    # Process 1 makes the folder of the keys itself.
    folders = {*mounts} - {str(DEFAULT_PATH), str(KEPT)}
    assert folders <= {f"/{folder}" for folder in DAEMON.folders}


def test_the_daemon_s_pods_can_sweep_their_nodes():
    """docs/kubernetes.md, Remove: a command in the place of the image's own, and nothing else changes."""
    (change,) = json.loads((BASE.parent / "sweep.json").read_text(encoding="utf-8"))
    (container,) = _of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    python, option, program = change["value"]

    assert ("add", "/spec/template/spec/containers/0/command") == (change["op"], change["path"])
    assert "command" not in container
    assert "-c" == option
    assert python in str(PROCESSES[DAEMON.name]["Entrypoint"])
    assert "'/usr/bin/meshwatchctl', 'sweep'" in program
    compile(program, "sweep.json", "exec")


def test_what_talks_to_the_api_has_no_capability():
    """Root by its number, as the control socket wants it, and able to open one that is a packaged daemon's."""
    (container,) = _of("Deployment")["spec"]["template"]["spec"]["containers"]
    assert {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]} == container["securityContext"]["capabilities"]
    assert 0 == container["securityContext"]["runAsUser"]
    assert False is container["securityContext"]["allowPrivilegeEscalation"]


def _rights(kind: str, namespace: str) -> set[tuple[str, str, str]]:
    return {
        (resource, verb, name)
        for rule in _of(kind, namespace)["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def test_the_account_may_do_what_the_code_does_and_nothing_else():
    """By the paths and methods of `meshwatchkube.requests` and `api`."""
    lease = LeaseSettings().name
    assert ("api/v1/nodes", "api/v1/namespaces/default/events") == (NODES, EVENTS)
    assert {("nodes", verb, "") for verb in ("get", "list", "watch", "patch")} | {("nodes/status", "patch", "")} == (
        _rights("ClusterRole", "")
    )
    assert {("leases", "create", ""), ("leases", "get", lease), ("leases", "update", lease)} == (
        _rights("Role", "kube-system")
    )
    assert {("events", "create", "")} == _rights("Role", "default")


def test_configurations_in_the_manifests_load(tmp_path):
    """And change nothing as they are."""
    path = tmp_path / "kube.toml"
    path.write_text((BASE / "kube.toml").read_text(encoding="utf-8"))
    settings = load(path)
    assert ("dry-run", "dry-run") == (settings.promotion.mode, settings.gating.mode)
    daemon = tomllib.loads((BASE / "meshwatchd.toml").read_text(encoding="utf-8"))
    assert {"mode": "observe"} == daemon["daemon"]
    assert set(daemon) <= set(Settings.__struct_fields__)


def test_the_rules_are_the_alerts():
    """In the form that the Prometheus operator reads."""
    rule = _of("PrometheusRule")
    assert [alert.name for alert in ALERTS] == [each["alert"] for each in rule["spec"]["groups"][0]["rules"]]
    monitor = _of("PodMonitor")
    (container,) = _of("DaemonSet")["spec"]["template"]["spec"]["containers"]
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in container["ports"]]
    labels = _of("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_the_dashboard_is_the_one_of_grafana():
    """The same file, for a sidecar that looks for this label."""
    found = _of("ConfigMap")
    installed = Path(ROOT / "etc/grafana/meshwatchd.json").read_text(encoding="utf-8")
    assert json.loads(installed) == json.loads(found["data"]["meshwatchd.json"])
    assert "1" == found["metadata"]["labels"]["grafana_dashboard"]
