"""`meshwatchctl ping`: each layer to a node, live."""

from __future__ import annotations

import sys
import time
from ipaddress import ip_address

import click

from meshwatchd.cli.command_path import ask_daemon
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.echo_legs import EchoLegs, addresses_of
from meshwatchd.cli.legs import Leg, Place, active_path, is_lost, legs_to, locate, since
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_ping import render_ping
from meshwatchd.model.errors import KernelError
from meshwatchd.model.ids import FlowClass, Layer
from meshwatchd.model.settings import SECOND
from meshwatchd.model.status import Status

EXIT_LOSSY, EXIT_DEAD = 1, 2
LAYERS = [layer.name.lower() for layer in Layer if layer is not Layer.SELF]
MAX_BYTES = 9000


class _Watch:
    """One target from the first look to the last."""

    def __init__(self, terminal: Terminal, target: str, *, layers: tuple[str, ...], is_fresh: bool) -> None:
        self._terminal, self._target = terminal, target
        self._layers, self._is_fresh = layers, is_fresh
        status, nodes, self.refusal = ask_daemon(terminal)
        self.place: Place | None = locate(target, nodes)
        if self.place is None:
            self._check_address(target, [node.name for node in nodes])
        self._before = self._sessions(status) if status is not None else ()

    def _check_address(self, target: str, names: list[str]) -> None:
        try:
            ip_address(target)
        except ValueError as error:
            if self.refusal is not None:
                raise self.refusal from error
            known = ", ".join(names) or "none"
            raise click.UsageError(f"{target} is no address and no known node; nodes are: {known}") from error

    def _sessions(self, status: Status) -> tuple[Leg, ...]:
        if self.place is None or self.place.node.name == status.node:
            return ()
        _, used = active_path(status, self.place.node.location)
        return legs_to(status, self.place.node.name, None if used is None else (used.number,))

    def look(self, echoes: EchoLegs) -> list[Leg]:
        """What was sent and lost since the beginning."""
        echoes.ask()
        found: list[Leg] = []
        if self.refusal is None:
            status, _, self.refusal = ask_daemon(self._terminal)
            found += since(self._sessions(status), self._before) if status is not None else ()
        found += echoes.legs()
        return [leg for leg in found if self._is_wanted(leg)]

    def _is_wanted(self, leg: Leg) -> bool:
        return leg.layer in (self._layers or (leg.layer,)) and not (self._is_fresh and leg.flow is not FlowClass.FRESH)


@click.command("ping")
@click.argument("target", metavar="NODE|ADDRESS")
@click.option("--layer", "layers", type=click.Choice(LAYERS), multiple=True, help="This layer; may be repeated.")
@click.option("--size", type=click.IntRange(48, MAX_BYTES), help="Bytes of each echo, whole IP packets with DF.")
@click.option("--fresh", "is_fresh", is_flag=True, help="New flows only: each echo has an identifier of its own.")
@click.option("--count", type=click.IntRange(0, 1_000_000), default=5, show_default=True, help="Looks; 0 for ever.")
@click.option("--interval", type=Duration(), default="1s", show_default=True, help="From one look to the next.")
@click.pass_obj
def ping(
    terminal: Terminal,
    *,
    target: str,
    layers: tuple[str, ...],
    size: int | None,
    is_fresh: bool,
    count: int,
    interval: int,
) -> int:
    """Watch each layer to a NODE or ADDRESS, as mtr does each hop.

    The daemon's own probes of the layers and of the path in use, counted while this runs; beside them, "over echo", an
    ICMP echo to each of the node's addresses, which the kernel there answers whether or not a daemon runs. --size is
    about the echoes; what the layers carry is measured all the time: meshwatchctl mtu.

    Exit status: 0 no loss, 1 some, 2 some layer does not answer at all.
    """
    watch = _Watch(terminal, target, layers=layers, is_fresh=is_fresh)
    name = watch.place.node.name if watch.place is not None else target
    asked = {layer: each for layer, each in addresses_of(watch.place, target).items() if layer in (layers or (layer,))}
    try:
        echoes = EchoLegs(name, asked, size=size or 0, is_fresh=is_fresh)
    except KernelError as error:
        click.echo(f"meshwatchctl: {error}", err=True)
        echoes = EchoLegs(name, {})
    try:
        legs = _repeat(terminal, watch, echoes, target, count=count, interval_ns=max(interval, SECOND // 10))
    finally:
        echoes.close()
    if watch.refusal is not None:
        click.echo(f"meshwatchctl: {watch.refusal}", err=True)
    if any(leg.state == "down" or leg.sent == leg.lost > 0 for leg in legs):
        return EXIT_DEAD
    return EXIT_LOSSY if not legs or any(is_lost(leg) for leg in legs) else 0


def _repeat(
    terminal: Terminal, watch: _Watch, echoes: EchoLegs, target: str, *, count: int, interval_ns: int
) -> list[Leg]:
    """Look again and again; on a terminal each look takes the place of the one before."""
    began_ns = due_ns = time.monotonic_ns()
    is_live = sys.stdout.isatty() and not terminal.is_json
    legs: list[Leg] = []
    looks, lines = 0, 0
    try:
        while count == 0 or looks < count:
            looks += 1
            due_ns = max(due_ns + interval_ns, time.monotonic_ns())
            # A look ends an interval, so that the daemon's sessions have something to tell.
            time.sleep(max(0, due_ns - time.monotonic_ns()) / SECOND)
            legs = watch.look(echoes)
            if is_live:
                page = _page(terminal, target, legs, began_ns)
                sys.stdout.write((f"\x1b[{lines}A\x1b[J" if lines else "") + page)
                sys.stdout.flush()
                lines = page.count("\n")
    except KeyboardInterrupt:
        if not legs:
            raise
    if not is_live:
        document = {"target": target, "looks": looks, "legs": legs}
        terminal.answer(document, lambda: _page(terminal, target, legs, began_ns))
    return legs


def _page(terminal: Terminal, target: str, legs: list[Leg], began_ns: int) -> str:
    seconds = (time.monotonic_ns() - began_ns) / SECOND
    return render_ping(target, legs, seconds=seconds, paint=terminal.paint)
