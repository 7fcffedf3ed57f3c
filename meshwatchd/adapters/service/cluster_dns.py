"""Which DNS server the pods of this node are given, read from the files of its kubelet."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from meshwatchd.model.decoding import Door
from meshwatchd.model.errors import ConfigError, DecodeError

KUBELET_CONFIG: Final = "var/lib/kubelet/config.yaml"
K3S_FOLDERS: Final = ("var/lib/rancher/k3s", "etc/rancher/k3s")
K3S_DNS: Final = "10.43.0.10"
"""Its default of --cluster-dns, which its kubelet is given on the command line."""
CLUSTER_DOMAIN: Final = "cluster.local"

MAX_BYTES: Final = 1 << 20

# KubeletConfiguration is a flat document, in YAML or JSON: one key and its first value need no parser of either.
_DNS: Final = re.compile(r"""(?m)^[^#\n]*?\bclusterDNS["']?\s*:(?:[\s\["'-]|\#[^\n]*)*([0-9A-Fa-f:.]+)""")
_DOMAIN: Final = re.compile(r"""(?m)^[^#\n]*?\bclusterDomain["']?\s*:\s*["']?([\w.-]+)""")


class ClusterDns(NamedTuple):
    """A server's address, the cluster's own domain, and the file that says so."""

    address: str
    domain: str
    source: str


def find_cluster_dns(root: Path = Path("/")) -> ClusterDns:
    """The DNS server of this node's cluster.

    Raises:
        ConfigError: no file says which.
    """
    path = root / KUBELET_CONFIG
    try:
        with path.open("rb") as file:
            address, domain = read_kubelet_config(file.read(MAX_BYTES))
        if address:
            return ClusterDns(address, domain, f"clusterDNS of {path}")
        problem = "has no clusterDNS"
    except OSError as error:
        problem = error.strerror or str(error)
    except DecodeError as error:
        problem = error.reason
    if any((root / folder).is_dir() for folder in K3S_FOLDERS):
        return ClusterDns(K3S_DNS, CLUSTER_DOMAIN, "default of K3s, which is installed here")
    raise ConfigError(str(path), "", f"no DNS server is known ({problem})", "give the cluster's: --dns ADDRESS")


def read_kubelet_config(data: bytes) -> tuple[str, str]:
    """The first DNS server and the domain of a KubeletConfiguration; an empty address where it names none.

    Raises:
        DecodeError: it is no text, or the server is no address.
    Source: k8s.io/kubelet config/v1beta1, clusterDNS and clusterDomain.
    """
    with Door("kubelet config", "give the DNS server by --dns ADDRESS"):
        text = data.decode()
        server, domain = _DNS.search(text), _DOMAIN.search(text)
        address = str(ip_address(server[1])) if server is not None else ""
        return address, domain[1].strip(".") if domain is not None else CLUSTER_DOMAIN
