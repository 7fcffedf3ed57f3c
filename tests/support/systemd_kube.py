"""meshwatchd-kube on a machine with systemd, as docs/kubernetes.md installs it, beside an API in the machine's network.

    with booted(..., *bound(wheels)) as machine, installed(machine, directory) as api:
        machine.read("systemctl", "start", "meshwatchd-kube")

The machine has no Python: it sees that of the bare root which it was made from, for as long as this lasts.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from netnslab.kube_api.objects import part
from netnslab.kube_api.resources import LEASES
from netnslab.namespaces import NETWORK_ONLY, Kind, Space
from tests.meta.tree import ROOT
from tests.support.kube import Served, served
from tests.support.systemd_machine import Machine

BARE_ROOT = "/var/cache/meshwatchd-bare-root/bookworm"
"""That of scripts/bare-root, of which scripts/systemd-root makes its own."""
KUBECONFIG = "/etc/meshwatchd/kubeconfig"
CONFIG = f"""\
[daemon]
read_interval = "200ms"

[api]
kubeconfig = "{KUBECONFIG}"
timeout = "1s"

[lease]
duration = "3s"

[drain]
follow = true
"""
PYTHON = "/usr/bin/python3.11 /usr/bin/python3 /usr/lib/python3.11"
LINK_PYTHON = f"for path in {PYTHON}; do ln -s /bare$path $path; done"
UNINSTALL = "/checkout/scripts/uninstall-kube"


def bound(wheels: Path) -> tuple[str, ...]:
    """Options of a machine's boot: what is seen inside of the checkout, of wheels and of Python."""
    return (f"--bind-ro={ROOT}:/checkout", f"--bind-ro={wheels}:/wheels", f"--bind-ro={BARE_ROOT}:/bare")


@contextmanager
def installed(machine: Machine, directory: Path) -> Iterator[Served]:
    """The program installed and configured, not started, beside an API that has a Node of the machine's name."""
    machine.sh(LINK_PYTHON)
    try:
        machine.read("/checkout/scripts/install-kube", "--wheels", "/wheels")
        name = machine.read("hostname").strip()
        with served(directory, names=(name,), listening=_listening(machine, directory)) as api:
            machine.write("/etc/meshwatchd/kube.toml", CONFIG)
            machine.write(KUBECONFIG, api.kubeconfig.read_text(encoding="utf-8"), "640")
            machine.read("chgrp", "meshwatch-kube", KUBECONFIG)
            yield api
    finally:
        machine.read(UNINSTALL, "--purge", "yes")
        machine.sh(f"rm -f {KUBECONFIG} {PYTHON}")


def holder(api: Served) -> str:
    """Who holds the Lease; empty where nobody does, or there is none."""
    leases, _ = api.store.list(LEASES, lambda _: True)
    return "".join(str(part(lease, "spec").get("holderIdentity", "")) for lease in leases)


def _listening(machine: Machine, directory: Path) -> socket.socket:
    """A socket in the machine's network."""
    space = Space(name="machine", directory=directory, kinds=NETWORK_ONLY)
    space.path(Kind.NET).symlink_to(f"/proc/{machine.leader}/ns/net")
    return space.call(lambda: socket.create_server(("127.0.0.1", 0)))
