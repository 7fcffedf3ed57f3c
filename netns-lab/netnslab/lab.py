"""A running lab: bring it up, find it again, use its nodes and pods, take it down."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from netnslab import ownership, process, shutdown, wireguard
from netnslab.backends import choose_here
from netnslab.build import Blueprint, build
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.inhabitant import Inhabitant
from netnslab.overlays import overlay_of
from netnslab.ownership import LabRecord
from netnslab.site import Site
from netnslab.topology import Topology
from netnslab.topology_file import load


class Lab:
    """A mesh in network namespaces.

        with Lab.up("kilo-flannel") as lab:
            lab.node("b3").run(["ip", "rule"], check=True)
            lab.pod("b3").run(["ping", "-c1", lab.pod("a3").ip], check=True)

    A lab from `up` is removed when the `with` block, `down()` or the process ends, also by SIGINT and
    SIGTERM. What even SIGKILL leaves behind is removed by the next `up` on the machine.
    """

    def __init__(self, lab_id: str, topology: Topology, *, is_owner: bool) -> None:
        self.lab_id = lab_id
        self.site = Site(topology=topology, pins=ownership.ROOT / lab_id / "ns")
        self._is_owner = is_owner
        self._owner_pid = os.getpid()
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._exits = ExitStack()

    @classmethod
    def up(
        cls,
        name: str = "kilo-flannel",
        *,
        backend: str = "auto",
        lab_id: str | None = None,
        keep: bool = False,
    ) -> Self:
        """Build a lab and return once packets cross it.

        Args:
            name: a topology that comes with the lab, or the path of a TOML file.
            backend: host, userspace, vm or auto.
            lab_id: its name among the labs of this machine; by default the topology's with a random suffix.
            keep: leave it running when this process ends, until somebody calls `down`.

        Raises:
            LabError: it cannot be built here; everything already built is removed.
        """
        if os.geteuid() != 0:
            raise LabError("the lab makes namespaces and needs root; run it with sudo")
        topology = load(name)
        overlay = overlay_of(topology)
        chosen = choose_here(backend, overlay.needs)
        record = _claim(lab_id or f"{topology.name}-{secrets.token_hex(2)}", name, chosen.wireguard)
        lab = cls(record.lab_id, topology, is_owner=True)
        with ExitStack() as undo:
            undo.callback(lab.down)
            lab._watch_for_the_end()
            build(
                Blueprint(
                    site=lab.site,
                    fabric=fabric_of(topology),
                    overlay=overlay,
                    wireguard=chosen.wireguard,
                    plays_ipip=chosen.plays_ipip,
                    record=record,
                    children=lab._children,
                )
            )
            lab.favour_tunnels()
            lab._finish(keep=keep)
            undo.pop_all()
        return lab

    @classmethod
    def attach(cls, lab_id: str | None = None) -> Self:
        """Find a running lab, by its id or because it is the only one. Leaving its block does not remove it.

        Labs that were brought up to stay come before those that belong to another running program.

        Raises:
            LabError: none or several are running.
        """
        record = ownership.read(lab_id) if lab_id else the_only_one(kept() or running())
        if record.is_abandoned():
            raise LabError(f"lab {record.lab_id} was left behind by a run that ended; the next `up` removes it")
        if not record.is_ready:
            raise LabError(f"lab {record.lab_id} is still being built; try again in a moment")
        return cls(record.lab_id, load(record.topology), is_owner=False)

    @property
    def topology(self) -> Topology:
        """What the lab consists of."""
        return self.site.topology

    @property
    def wan(self) -> Inhabitant:
        """The switches and routers between the nodes."""
        return self.site.wan

    def node(self, name: str) -> Inhabitant:
        """A node, to run commands in its network, its mounts and under its host name."""
        return self.site.node(name)

    def pod(self, node: str) -> Inhabitant:
        """The pod on a node, to run commands in its network; `.ip` is its address."""
        return self.site.pod(node)

    def favour_tunnels(self) -> None:
        """Run every userspace WireGuard in the lab, whoever started it, as punctually as a kernel's own."""
        pinned = ownership.read(self.lab_id).namespaces
        wireguard.put_before_processes(each.inode for each in pinned if each.kind == "net")

    def down(self) -> None:
        """Remove the lab and end every process in it; signals wait until that is done.

        A second call does nothing.
        """
        if self._is_owner and os.getpid() != self._owner_pid:
            return  # a forked child must not take its parent's lab down when it exits
        with shutdown.signals_held(), ownership.exclusive():
            if (ownership.ROOT / self.lab_id).exists():
                ownership.remove(ownership.read(self.lab_id))
        for child in self._children.values():
            child.wait()
        self._children.clear()
        atexit.unregister(self.down)
        self._exits.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_owner:
            self.down()

    def _watch_for_the_end(self) -> None:
        atexit.register(self.down)
        self._exits.enter_context(shutdown.sigterm_as_exit())

    def _finish(self, *, keep: bool) -> None:
        """Others may use it from here on; with `keep` it belongs to nobody and stays."""
        with ownership.updating(self.lab_id) as record:
            record.is_ready = True
            record.owner = None if keep else record.owner
        if keep:
            self._is_owner = False
            atexit.unregister(self.down)
            self._exits.close()


def running() -> list[LabRecord]:
    """The records of all labs on this machine that can be used: built, and not left behind by a crash."""
    return [record for record in ownership.read_all() if record.is_ready and not record.is_abandoned()]


def kept() -> list[LabRecord]:
    """Of the running labs, those that stay until somebody says down."""
    return [record for record in running() if record.owner is None]


def the_only_one(labs: Sequence[LabRecord]) -> LabRecord:
    """The lab that is meant when none is named.

    Raises:
        LabError: there are none or several.
    """
    if len(labs) == 1:
        return labs[0]
    if not labs:
        raise LabError("no lab is up; `up kilo-flannel` builds one")
    raise LabError(f"several labs are up: {', '.join(lab.lab_id for lab in labs)}; say which one")


def _claim(lab_id: str, topology: str, wireguard: str) -> LabRecord:
    """Clean up after crashed runs and reserve an id, before anything is made that would need it."""
    record = LabRecord(
        lab_id=lab_id,
        boot_id=process.boot_id(),
        topology=str(Path(topology).resolve()) if topology.endswith(".toml") else topology,
        wireguard=str(wireguard),
        owner=process.identify(os.getpid()),
    )
    with ownership.exclusive():
        ownership.remove_abandoned()
        if record.directory.exists():
            raise LabError(f"lab {lab_id} is already up; take it down first (`down {lab_id}`) or choose another id")
        ownership.make_mount_points(record)
    return record
