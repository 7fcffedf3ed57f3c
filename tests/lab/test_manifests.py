"""kubectl renders the manifests, and an API that it asks about kinds takes each object of them."""

from __future__ import annotations

import json
import subprocess

import pytest

from netnslab.kube_api.objects import Resource
from netnslab.kube_api.resources import EVENTS, LEASES, NODES
from netnslab.kube_api.server import KubeApi
from netnslab.kube_api.store import Store
from tests.meta.tree import ROOT
from tests.support.kube import listening_socket, served, write_kubeconfig

pytestmark = pytest.mark.lab

BASE = ROOT / "kube" / "manifests" / "base"
RBAC = "rbac.authorization.k8s.io"
MONITORING = "monitoring.coreos.com"
KINDS = (
    NODES,
    EVENTS,
    LEASES,
    Resource(plural="configmaps", kind="ConfigMap", is_namespaced=True),
    Resource(plural="serviceaccounts", kind="ServiceAccount", is_namespaced=True),
    Resource(plural="daemonsets", kind="DaemonSet", group="apps", is_namespaced=True),
    Resource(plural="deployments", kind="Deployment", group="apps", is_namespaced=True),
    Resource(plural="roles", kind="Role", group=RBAC, is_namespaced=True),
    Resource(plural="rolebindings", kind="RoleBinding", group=RBAC, is_namespaced=True),
    Resource(plural="clusterroles", kind="ClusterRole", group=RBAC),
    Resource(plural="clusterrolebindings", kind="ClusterRoleBinding", group=RBAC),
    Resource(plural="podmonitors", kind="PodMonitor", group=MONITORING, is_namespaced=True),
    Resource(plural="prometheusrules", kind="PrometheusRule", group=MONITORING, is_namespaced=True),
)


def _kubectl(*arguments, text=None):
    done = subprocess.run(["kubectl", *arguments], input=text, capture_output=True, check=False, text=True, timeout=60)
    assert 0 == done.returncode, done.stderr
    return done.stdout


def test_kubectl_takes_each_object(tmp_path):
    """Names of ConfigMaps have a hash, and those that use them have it too."""
    rendered = _kubectl("kustomize", str(BASE))
    store = Store(KINDS)
    listening, port = listening_socket()
    kubeconfig = write_kubeconfig(tmp_path, port)
    with KubeApi(store, [listening]):
        options = ("--kubeconfig", str(kubeconfig), "--validate=false", "-f", "-")
        dry = _kubectl("create", "--dry-run=client", "-o", "name", *options, text=rendered)
        assert 14 == len(dry.splitlines())
        _kubectl("create", *options, text=rendered)
        made, _ = store.list(KINDS[5], lambda _: True)
    (daemon,) = json.loads(json.dumps(made))
    volumes = {volume["name"]: volume for volume in daemon["spec"]["template"]["spec"]["volumes"]}
    assert volumes["config"]["configMap"]["name"].startswith("meshwatchd-")


def test_kubectl_sees_what_is_written_to_a_node(tmp_path):
    """Taints, conditions and cordons, in the words of its own table."""
    with served(tmp_path) as api:
        _kubectl("--kubeconfig", str(api.kubeconfig), "cordon", "b3")
        told = _kubectl("--kubeconfig", str(api.kubeconfig), "get", "nodes", "-o", "name")
        assert 6 == len(told.splitlines())
        assert True is json.loads(json.dumps(api.node("b3")))["spec"]["unschedulable"]
