"""The lab's command line: `python -m netnslab up kilo-flannel`, as root."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import click

from netnslab import doctor as doctor_module
from netnslab import faults, state_faults
from netnslab.backends import NAMES
from netnslab.draw import draw as draw_picture
from netnslab.errors import LabError
from netnslab.fabric import fabric_of
from netnslab.fault_plans import DEFAULT_MEMORY_S, PLANS
from netnslab.faults import Fault
from netnslab.lab import Lab, kept, running, the_only_one
from netnslab.live_state import observe
from netnslab.topology_file import available

LEARN_S = 3.0
"""Long enough for every running flow to have sent something."""

_lab_option = click.option("--lab", "lab_id", metavar="ID", help="Which lab; not needed when only one is up.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Whole Kilo and flannel meshes in network namespaces, with faults to inject."""


@cli.command()
@click.argument("topology", default="kilo-flannel", metavar=f"[{'|'.join(available())}|FILE.toml]")
@click.option("--backend", type=click.Choice([str(name) for name in NAMES]), default="auto", show_default=True)
@click.option("--lab", "lab_id", metavar="ID", help="Name the lab; by default after its topology.")
def up(topology: str, backend: str, lab_id: str | None) -> None:
    """Build a lab that stays until `down`."""
    began_ns = time.monotonic_ns()
    default_id = Path(topology).name.removesuffix(".toml")
    lab = Lab.up(topology, backend=backend, lab_id=lab_id or default_id, keep=True)
    click.echo(f"{lab.lab_id} is up after {(time.monotonic_ns() - began_ns) / 1e9:.1f} s")
    click.echo(f"nodes: {' '.join(lab.topology.nodes)}; try `python -m netnslab enter {list(lab.topology.nodes)[-1]}`")


@cli.command()
@click.argument("lab_id", required=False, metavar="[ID]")
def down(lab_id: str | None) -> None:
    """Remove a lab and end every process in it; a lab some program uses must be named."""
    lab = Lab.attach(lab_id or the_only_one(kept()).lab_id)
    lab.down()
    click.echo(f"{lab.lab_id} is gone")


@cli.command(name="list")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def list_labs(*, as_json: bool) -> None:
    """Show the labs on this machine."""
    labs = [
        {
            "lab": record.lab_id,
            "topology": record.topology,
            "wireguard": record.wireguard,
            "kept": record.owner is None,
            "directory": str(record.directory),
            "faults": [f"{fault.kind}@{fault.node}" for fault in record.faults],
        }
        for record in running()
    ]
    if as_json:
        click.echo(json.dumps(labs, indent=1))
        return
    for lab in labs:
        click.echo("  ".join(str(lab[key]) for key in ("lab", "topology", "wireguard", "directory")))


@cli.command()
@_lab_option
def draw(lab_id: str | None) -> None:
    """Draw a lab with its present state."""
    lab = Lab.attach(lab_id)
    click.echo(draw_picture(lab.topology, observe(lab)))


@cli.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_lab_option
@click.argument("inhabitant", metavar="NODE|pod/NODE|wan")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def enter(lab_id: str | None, inhabitant: str, command: tuple[str, ...]) -> None:
    """Open a shell, or run a command, where a node or pod lives."""
    argv = command[1:] if command[:1] == ("--",) else command
    space = Lab.attach(lab_id).site.inhabitant(inhabitant).space
    full = space.command(argv or (os.environ.get("SHELL", "/bin/sh"),))
    os.execvp(full[0], full)  # noqa: S606 - an argument list, and no shell wanted


@cli.command()
@_lab_option
@click.argument("fault", type=click.Choice([*PLANS, *state_faults.CATALOGUE]), metavar="FAULT")
@click.argument("node", required=False, metavar="[NODE]")
@click.option("--peer", help="faults of the catalogue: whom it is about; by default the usual one.")
@click.option("--memory", "memory_s", type=float, default=DEFAULT_MEMORY_S, help="overlay-new-flows: seconds.")
@click.option("--learn", "learn_s", type=float, default=LEARN_S, help="overlay-new-flows: seconds before it strikes.")
@click.option("--arm-only", is_flag=True, help="overlay-new-flows: begin to remember, do not strike.")
@click.option("--ratio", type=float, default=0.1, show_default=True, help="random-loss: share of packets.")
@click.option("--port", type=int, default=51830, show_default=True, help="udp-port-blocked: which.")
def inject(
    *,
    lab_id: str | None,
    fault: str,
    node: str | None,
    peer: str | None,
    memory_s: float,
    learn_s: float,
    arm_only: bool,
    ratio: float,
    port: int,
) -> None:
    r"""Break something, until `heal`: by default at the leader of the last location.

    \b
    FAULT is one of: overlay-new-flows, overlay-black-hole, relay-not-forwarding,
    leader-dead, wireguard-blocked, udp-port-blocked, random-loss; or a code of the catalogue,
    such as fdb-entry-missing, whose usual place depends on the topology.
    """
    lab = Lab.attach(lab_id)
    if fault in state_faults.CATALOGUE and (fault not in PLANS or fabric_of(lab.topology).carries_overlay):
        broken = state_faults.make(lab, fault, node, peer=peer)
        broken.inject()
        click.echo(f"{fault} at {broken.node}: injected")
        return
    where = node or list(lab.topology.locations.values())[-1].leader
    parameters = {"memory_s": memory_s, "ratio": ratio, "port": float(port)}
    chosen = _already_armed(lab, fault, where) or faults.make(lab, fault, where, parameters)
    if chosen.plan.has_memory and not chosen.is_armed:
        chosen.arm()
        click.echo(f"{fault} at {where}: armed, remembers flows for {memory_s:g} s after their last packet")
        if not arm_only:
            click.echo(f"letting it learn for {learn_s:g} s")
            time.sleep(learn_s)
    if not arm_only:
        chosen.inject()
        click.echo(f"{fault} at {where}: injected")


@cli.command()
@_lab_option
@click.argument("fault", required=False, metavar="[FAULT]")
@click.argument("node", required=False, metavar="[NODE]")
def heal(lab_id: str | None, fault: str | None, node: str | None) -> None:
    """Remove faults: all, those of one kind, or one at one node."""
    lab = Lab.attach(lab_id)
    for found, record in faults.active(lab):
        if fault in {None, record.kind} and node in {None, record.node}:
            found.remove()
            click.echo(f"{record.kind} at {record.node}: healed")
    for record in state_faults.active(lab):
        if fault in {None, record.kind} and node in {None, record.node}:
            state_faults.heal_record(lab, record)
            click.echo(f"{record.kind} at {record.node}: healed")


@cli.command()
def doctor() -> None:
    """Say what this kernel can do for a lab, and what is missing."""
    raise SystemExit(doctor_module.main())


def _already_armed(lab: Lab, kind: str, node: str) -> Fault | None:
    for found, record in faults.active(lab):
        if (record.kind, record.node) == (kind, node):
            return found
    return None


def main() -> None:
    """Run a command; what the lab refuses is one line and status 2."""
    try:
        cli(prog_name="python -m netnslab")
    except LabError as error:
        click.echo(f"netnslab: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
