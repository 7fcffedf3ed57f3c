"""`meshwatchctl doctor`: what is wrong with this node's set-up, with and without a daemon."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from meshwatchd.adapters.control.nodes import NodesReply
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.doctor import firewall, machine, policy_rules, ports, setup, tunnels
from meshwatchd.adapters.process import LOCK_NAME, is_locked
from meshwatchd.cli.client import EXIT_NO_PERMISSION
from meshwatchd.cli.doctor_daemon import judge_mode, judge_nodes, judge_status
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_doctor import render_checkup
from meshwatchd.model.checkup import Check, CheckState, worst
from meshwatchd.model.errors import ControlError, DecodeError
from meshwatchd.model.settings import Settings
from meshwatchd.model.status import Status

EXIT_CODES = {CheckState.OK: 0, CheckState.NOTE: 0, CheckState.WARNING: 1, CheckState.ERROR: 2}


@click.command("doctor")
@click.option("--config", type=click.Path(path_type=Path), help="The configuration file, if it is not the usual one.")
@click.option("-q", "--quiet", "is_quiet", is_flag=True, help="Only what is not ok.")
@click.pass_obj
def doctor(terminal: Terminal, *, config: Path | None, is_quiet: bool) -> int:
    """Check this node: configuration, key, ports, kernel, rules of others, clock, firewall, tunnels, other nodes.

    Each line is ok, a note, a warning or an error, with the command that mends it. Without a daemon it checks what can
    be checked locally. It changes nothing, and as root it sees more.

    Exit status, as Nagios has it: 0 ok, 1 warning, 2 error.
    """
    checks = list(_examine(terminal, config))
    if is_quiet:
        checks = [check for check in checks if check.state is not CheckState.OK]
    answer = {"state": worst(checks), "checks": checks}
    terminal.answer(answer, lambda: render_checkup(checks, paint=terminal.paint))
    return EXIT_CODES[worst(checks)]


def _examine(terminal: Terminal, config: Path | None) -> Iterator[Check]:
    settings, found = setup.check_configuration(config)
    yield from found
    yield from setup.check_keys(settings)
    status, of_daemon, is_forbidden = _ask_daemon(terminal, settings)
    yield from of_daemon
    if status is not None:
        yield from judge_mode(status, settings.daemon.mode)
    if not is_forbidden:
        # Else nobody can tell whose ports they are.
        is_running = status is not None or is_locked(Path(settings.daemon.runtime_dir) / LOCK_NAME)
        yield from ports.check_ports(settings, ports.open_ports(), is_running=is_running)
    yield from ports.check_ephemeral(settings)
    yield from machine.check_machine(settings, _devices(settings, status))
    yield from policy_rules.check_rules(settings)
    yield from firewall.check_firewall(settings, firewall.read_ruleset())
    yield from tunnels.check_tunnels(settings.kernel.protocol)


def _ask_daemon(terminal: Terminal, settings: Settings) -> tuple[Status | None, list[Check], bool]:
    """What the daemon says, or why it says nothing; and whether that is because of who asks."""
    client = terminal.client
    try:
        version = client.version()
        status = client.ask("Status", StatusReply).status
        nodes = client.ask("Nodes", NodesReply)
    except ControlError as error:
        is_forbidden = error.code == EXIT_NO_PERMISSION and os.geteuid() != 0
        state = CheckState.NOTE if is_forbidden else CheckState.ERROR
        remedy = "sudo meshwatchctl doctor" if is_forbidden else "systemctl restart meshwatchd"
        if is_locked(Path(settings.daemon.runtime_dir) / LOCK_NAME):
            remedy = "journalctl -u meshwatchd -n 50"
        return None, [Check(area="daemon", state=state, text=str(error), remedy=remedy)], is_forbidden
    except DecodeError as error:
        text = f"the daemon is of another version: {error.reason}"
        remedy = "systemctl restart meshwatchd"
        return None, [Check(area="daemon", state=CheckState.ERROR, text=text, remedy=remedy)], False
    return status, [*judge_status(status, str(version), now_ns=time.monotonic_ns()), *judge_nodes(nodes)], False


def _devices(settings: Settings, status: Status | None) -> tuple[str, ...]:
    """Those of the mesh, as far as they are known without asking the kernel."""
    tunnels_ = () if status is None else tuple(tunnel.device for tunnel in status.tunnels)
    mesh = settings.mesh
    return tuple(dict.fromkeys((mesh.wireguard_device, mesh.overlay_device, *tunnels_)))
