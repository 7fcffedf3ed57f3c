"""What the spectator of the demonstration sees: colours on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from netnslab.demo_scenes import Check, Say, Scene
from netnslab.observation import Report
from netnslab.timeline import Entry, Tone
from netnslab.topology import Topology

MS = 1_000_000
SECOND = 1_000 * MS
# A file or a pipe has no width of its own.
PLAIN_WIDTH = 100
LABEL_WIDTH = 16

SIGNS = MappingProxyType(
    {
        Tone.FAULT: ("◆", "bold yellow"),
        Tone.BAD: ("✗", "red"),
        Tone.INFO: ("·", "default"),
        Tone.GOOD: ("✓", "green"),
    }
)
# Shares of success from none to all, in eighths of a line.
BLOCKS = "▁▂▃▄▅▆▇█"


def make_console(*, is_quiet: bool) -> Console:
    """The console; quiet when a machine reads standard output."""
    probe = Console()
    return Console(width=None if probe.is_terminal else PLAIN_WIDTH, quiet=is_quiet, highlight=False)


def show_opening(console: Console, topology: Topology, *, built_in_s: float) -> None:
    """Who plays."""
    console.print()
    console.rule("[bold]meshwatchd: a fault that ping does not see[/]")
    console.print()
    for location in topology.locations.values():
        members = []
        for node in topology.members(location.name):
            role = " (leader)" if node.name == location.leader else ""
            role = " (standby)" if node.name in location.standbys else role
            members.append(f"[bold]{node.name}[/]{role} pod {node.pod_ip}")
        console.print(f"  {location.name:<8} {'   '.join(members)}")
    console.print(
        "\n  Two sites of a Kubernetes cluster, joined by WireGuard between the leaders (Kilo) and by VXLAN\n"
        f"  within each (flannel): {len(topology.nodes)} network namespaces, built in {built_in_s:.1f} s."
    )


@contextmanager
def scene(console: Console, title: str, intro: str) -> Iterator[Say]:
    """Head of a scene; yields what announces each step of it while it is played."""
    console.print()
    console.rule(f"[bold]{title}[/]", align="left")
    console.print(f"\n{intro}\n")
    with console.status("…") as spinner:

        def say(text: str) -> None:
            spinner.update(escape(text))
            if not console.is_terminal:
                console.print(f"  … {text}", markup=False)

        yield say


def show_scene(console: Console, played: Scene) -> None:
    """All that one scene has brought to light."""
    _show_strips(console, played.report)
    _show_opinions(console, played.report)
    _show_timeline(console, played.entries, zero_ns=played.report.injected_ns)


def show_checks(console: Console, checks: Sequence[Check]) -> None:
    """The promises, kept or not."""
    console.print()
    console.rule("[bold]Promises[/]", align="left")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    for check in checks:
        sign, style = SIGNS[Tone.GOOD if check.is_kept else Tone.BAD]
        table.add_row(Text(f"  {sign}", style), Text(check.promise), Text(check.measured, "bold"))
    console.print()
    console.print(table)
    console.print()


def _show_strips(console: Console, report: Report) -> None:
    for kind, strip in report.strips.items():
        line = Text(f"  {f'new {kind.upper()} flows':<{LABEL_WIDTH}}")
        for share in strip:
            line.append(*_block(share))
        console.print(line)
    console.print(Text(f"  {'':<{LABEL_WIDTH}}{_ruler(report)}", "dim"))


def _block(share: float | None) -> tuple[str, str]:
    if share is None:
        return " ", "default"
    style = "green" if share == 1 else "red" if share < 0.5 else "yellow"
    return BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))], style


def _ruler(report: Report) -> str:
    """Marks under the strips: where the fault began and ended."""
    width = len(next(iter(report.strips.values())))
    span_ns = report.ended_ns - report.began_ns
    began = (report.injected_ns - report.began_ns) * width // span_ns
    ended = max(began + 1, (report.healed_ns - report.began_ns) * width // span_ns)
    label = f" fault {(report.healed_ns - report.injected_ns) / SECOND:.1f} s "
    return " " * began + "└" + label.center(ended - began - 1, "─")[: ended - began - 1] + "┘"


def _show_opinions(console: Console, report: Report) -> None:
    table = Table.grid(padding=(0, 2))
    outage_ns = report.both.duration_ns
    lasted = "as long as the fault" if outage_ns is None else f"for {outage_ns / MS:.0f} ms"
    share = f"{report.both.lost} lost, {report.lost_share_during:.0%} of those while the fault was on"
    table.add_row("  new flows", Text(f"outage {lasted}", "bold"), share)
    for pair, stream in report.streams.items():
        fate = Text("alive", "green") if stream.survived else Text(f"dead: {stream.reason}", "red")
        stall = f"{stream.answered} messages in order, longest stall {stream.longest_stall_ns / MS:.0f} ms"
        table.add_row(f"  open TCP {pair}", fate, stall)
    for ping in report.pings:
        opinion = Text("all is well", "green") if ping.is_content else Text("not content", "red")
        table.add_row(f"  ping {ping.label}", opinion, f"{ping.received} of {ping.sent} answered")
    console.print()
    console.print(table)
    worst_ns = max(source.lateness_p99_ns for source in report.sources.values())
    console.print(Text(f"  (the traffic source itself was never later than {worst_ns / MS:.0f} ms, p99)", "dim"))


def _show_timeline(console: Console, entries: Sequence[Entry], *, zero_ns: int) -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for entry in entries:
        sign, style = SIGNS[entry.tone]
        when = f"{(entry.at_ns - zero_ns) / SECOND:+10.3f} s"
        story = Text(entry.text, style)
        for detail in entry.details:
            story.append(f"\n  {detail}", "dim")
        table.add_row(Text(when, "cyan"), Text(f" {entry.who:<7}", "bold"), Text(sign, style), story)
    console.print()
    console.print(table)
