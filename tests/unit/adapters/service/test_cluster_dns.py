"""Which DNS server a node's pods have, by the files of its kubelet."""

from __future__ import annotations

import json

import pytest

from meshwatchd.adapters.service.cluster_dns import KUBELET_CONFIG, find_cluster_dns, read_kubelet_config
from meshwatchd.model.errors import ConfigError, DecodeError

YAML = """\
apiVersion: kubelet.config.k8s.io/v1beta1
# clusterDNS: [192.0.2.1]
clusterDNS:
- 10.96.0.10
- 10.96.0.11
clusterDomain: example.internal
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (YAML, ("10.96.0.10", "example.internal")),
        ("clusterDNS: ['169.254.20.10']\n", ("169.254.20.10", "cluster.local")),
        ('clusterDNS:  # of this cluster\n  - "fd00:10:96::a"\n', ("fd00:10:96::a", "cluster.local")),
        (json.dumps({"kind": "x", "clusterDNS": ["10.43.0.10"], "clusterDomain": "k.s."}), ("10.43.0.10", "k.s")),
        ("clusterDNS: []\nclusterDomain: cluster.local\n", ("", "cluster.local")),
        ("kind: KubeletConfiguration\n", ("", "cluster.local")),
    ],
)
def test_the_first_server_is_read_as_yaml_or_json_has_it(text, expected):
    """As kubeadm, kubespray and people write it."""
    assert expected == read_kubelet_config(text.encode())


def test_what_is_no_address_is_refused():
    """With the remedy."""
    with pytest.raises(DecodeError, match="--dns ADDRESS"):
        read_kubelet_config(b"clusterDNS: [10.96.0]\n")


def _write(root, text):
    path = root / KUBELET_CONFIG
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_kubelets_file_goes_before_the_default_of_k3s(tmp_path):
    """The source is named."""
    (tmp_path / "var/lib/rancher/k3s").mkdir(parents=True)
    assert ("10.43.0.10", "cluster.local") == find_cluster_dns(tmp_path)[:2]
    path = _write(tmp_path, YAML)
    assert ("10.96.0.10", "example.internal", f"clusterDNS of {path}") == find_cluster_dns(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file"), ("kind: x\n", "has no clusterDNS"), ("clusterDNS: [300.1.1.1]\n", "not understood")],
)
def test_where_nothing_says_which_the_remedy_is_named(tmp_path, text, reason):
    """A file that is missing, says nothing, or makes no sense."""
    if text is not None:
        _write(tmp_path, text)
    with pytest.raises(ConfigError, match=reason) as caught:
        find_cluster_dns(tmp_path)
    assert "--dns ADDRESS" in str(caught.value)
