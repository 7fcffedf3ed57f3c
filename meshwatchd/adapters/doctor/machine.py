"""The kernel, the clock and systemd-networkd."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from meshwatchd.adapters.host.proc import read_host, read_text
from meshwatchd.adapters.stamp_interop.host import UNKNOWN_CLOCK, ClockState, clock_state
from meshwatchd.model.checkup import Check, CheckState
from meshwatchd.model.host import STRICT
from meshwatchd.model.settings import Mode, Settings

NETWORKD_FILES: Final = (
    "run/systemd/networkd.conf.d",
    "etc/systemd/networkd.conf.d",
    "usr/lib/systemd/networkd.conf.d",
)
"""networkd.conf(5): drop-ins, beside etc/systemd/networkd.conf."""

NETWORKD: Final = "systemd-network"
"""The first fifteen characters of its name (proc_pid_comm(5))."""

_FOREIGN: Final = ("ManageForeignRoutingPolicyRules", "ManageForeignRoutes")


def check_machine(settings: Settings, devices: Iterable[str] = (), *, root: Path = Path("/")) -> Iterator[Check]:
    """Kernel, forwarding, clock and networkd."""
    yield _check_wireguard(settings, root)
    yield from _check_host(devices, root)
    yield judge_clock(clock_state())
    yield from check_networkd(root)


def _check_wireguard(settings: Settings, root: Path) -> Check:
    release = os.uname().release
    modules = root / "lib/modules" / release
    is_loaded = (root / "sys/module/wireguard").is_dir()
    is_there = any("/wireguard.ko" in read_text(modules / name) for name in ("modules.builtin", "modules.dep"))
    if is_loaded or is_there:
        return Check(area="kernel", state=CheckState.OK, text=f"Linux {release} has WireGuard")
    if shutil.which("wireguard-go"):
        text = f"Linux {release} has no WireGuard; standby links run in wireguard-go"
        return Check(area="kernel", state=CheckState.NOTE, text=text)
    state = CheckState.ERROR if settings.daemon.mode is Mode.ENFORCE else CheckState.WARNING
    text = f"Linux {release} has no WireGuard, and there is no wireguard-go: this node can have no standby link"
    return Check(area="kernel", state=state, text=text, remedy="modprobe wireguard, or install wireguard-go")


def _check_host(devices: Iterable[str], root: Path) -> Iterator[Check]:
    host = read_host(devices, time.monotonic_ns(), proc=root / "proc")
    if host.is_forwarding is False:
        text = "the kernel forwards nothing (net.ipv4.ip_forward is 0): pods of this node cannot reach others"
        yield Check(area="kernel", state=CheckState.ERROR, text=text, remedy="sysctl -w net.ipv4.ip_forward=1")
    for device, value in host.rp_filter.items():
        if value == STRICT:
            text = f"{device} drops packets that come back another way (rp_filter 1), as they do after a failover"
            remedy = f"sysctl -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.{device}.rp_filter=2"
            yield Check(area="kernel", state=CheckState.WARNING, text=text, remedy=remedy)
    if host.conntrack_max and host.conntrack_count >= 0.9 * host.conntrack_max:
        text = f"the table of connections is nearly full: {host.conntrack_count} of {host.conntrack_max}"
        remedy = f"sysctl -w net.netfilter.nf_conntrack_max={2 * host.conntrack_max}"
        yield Check(area="kernel", state=CheckState.WARNING, text=text, remedy=remedy)


def judge_clock(state: ClockState) -> Check:
    """Whether somebody disciplines the wall clock."""
    if state == UNKNOWN_CLOCK:
        text = "the clock is not synchronized: delays of one direction cannot be told, and logs of nodes do not match"
        return Check(area="clock", state=CheckState.WARNING, text=text, remedy="timedatectl set-ntp true")
    return Check(area="clock", state=CheckState.OK, text="the clock is synchronized")


def check_networkd(root: Path) -> Iterator[Check]:
    """Whether systemd-networkd runs and would delete rules and routes that it has not made (networkd.conf(5))."""
    # run/systemd/netif is made at each boot, whether it runs or not.
    if all(read_text(path).strip() != NETWORKD for path in (root / "proc").glob("[0-9]*/comm")):
        return
    folders = [sorted((root / folder).glob("*.conf")) for folder in NETWORKD_FILES]
    paths = (root / "etc/systemd/networkd.conf", *(path for each in folders for path in each))
    texts = [read_text(path) for path in paths]
    spared = {line.replace(" ", "").lower() for text in texts for line in text.splitlines()}
    if all(any(f"{name.lower()}={no}" in spared for no in ("no", "false", "0", "off")) for name in _FOREIGN):
        yield Check(area="kernel", state=CheckState.OK, text="systemd-networkd leaves rules and routes of others alone")
        return
    source = "/usr/share/doc/meshwatchd/examples/50-meshwatchd-networkd.conf"
    yield Check(
        area="kernel",
        state=CheckState.WARNING,
        text="systemd-networkd runs and deletes rules and routes that it has not made",
        remedy=f"install -D -t /etc/systemd/networkd.conf.d {source} && systemctl try-restart systemd-networkd",
    )
