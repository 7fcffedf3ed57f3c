"""What the daemons make of each fault of the catalogue: `python -m netnslab.bench_diagnosis`, as root.

One mesh for each topology, with daemons and a little traffic. Each cell: everything calm, the fault is injected; wait
until a daemon names it or time is up; what all daemons say then is judged; the fault is healed, and calm awaited. A
diagnosis is right when the fault's own code is said of its own culprit, and no daemon says or blames another one.

A full run takes half an hour. `--slice 2/6` plays the second sixth of the cells of each topology, and `--merge FILE...`
joins what several runs of one commit have measured into one matrix.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import cast

from netnslab.daemons import Daemons, Event, is_ready
from netnslab.diagnosis_calm import watch_calm
from netnslab.diagnosis_cells import (
    TOPOLOGIES,
    Trial,
    companions_of,
    patience_s,
    places_of,
    settings_for,
    settle_s,
    traffic_pairs,
    trials,
)
from netnslab.diagnosis_document import joined, read, write
from netnslab.diagnosis_report import CALM, Cell, Told, judge, render
from netnslab.discard import Discards
from netnslab.errors import LabError
from netnslab.faults import Fault
from netnslab.lab import Lab
from netnslab.state_faults import StateFault
from netnslab.traffic_source import Traffic
from netnslab.waiting import pause_until, wait_until

SECOND = 1_000_000_000
READY_TIMEOUT_S = 180.0
"""Six daemons that start at once on a machine that others keep busy have taken 100 s."""
CALM_TIMEOUT_S = 60.0
# What has stood for ten seconds while all was well is taken for good, by looks five seconds apart; audits compare with
# that. Without it a wrong key is one that has never shaken hands.
GOOD_NS = 20 * SECOND
RATE = 40
"""Every other flow is TCP's, and is looked for by who counts packets that belong to no connection."""


class Bench:
    """One topology with its daemons.

    Args:
        patience_s: how long to wait for the right name, whatever the fault; None: as long as its kind takes.
    """

    def __init__(self, lab: Lab, daemons: Daemons, *, patience_s: float | None) -> None:
        self._lab = lab
        self._daemons = daemons
        self._patience_s = patience_s

    def settle(self) -> None:
        """Wait until everybody is ready, and what is there has been taken for good."""
        self._daemons.wait_ready(timeout_s=READY_TIMEOUT_S)
        pause_until(time.monotonic_ns() + GOOD_NS)

    def play(self, trial: Trial) -> Cell:
        """One cell; the fault is gone afterwards, whatever happens."""
        self.wait_calm()
        fault = trial.make(self._lab)
        expected = fault.expected
        with ExitStack() as exits:
            if isinstance(fault, Fault):
                exits.enter_context(fault.armed())
                if fault.plan.has_memory:
                    pause_until(time.monotonic_ns() + 2 * SECOND)
            else:
                exits.callback(fault.heal)
            injected_ns = time.monotonic_ns()
            fault.inject()
            with suppress(LabError):  # a fault that nobody names is a result as well
                wait_until(
                    lambda: any(each.fault == expected.fault for each in self._standing()),
                    timeout_s=self._patience_s or patience_s(expected.fault),
                    what=f"{expected.fault} to be named",
                    poll_s=0.25,
                )
            pause_until(time.monotonic_ns() + round(settle_s(trial.fault) * SECOND))
            standing = self._standing()
            history = self._history(injected_ns)
            healed_ns = _heal(fault)
        peer = fault.peer if isinstance(fault, StateFault) else ""
        places = places_of(trial.fault, victim=_struck(fault), peer=peer, topology=self._lab.topology)
        return judge(
            topology=trial.topology,
            expected=expected.fault,
            node=_struck(fault),
            culprit=expected.node,
            injected_ns=injected_ns,
            history=history,
            standing=standing,
            calm_ms=self._calm_after(healed_ns),
            companions=companions_of(
                trial.fault,
                victim=_struck(fault),
                peer=peer,
                culprit=expected.node,
                nodes=self._daemons.nodes,
                places=places,
            ),
            places=places,
        )

    def _calm_after(self, healed_ns: int) -> float | None:
        try:
            self.wait_calm()
        except LabError:
            return None
        return (time.monotonic_ns() - healed_ns) / 1e6

    def wait_calm(self) -> None:
        """Wait until nobody says anything, and everybody is ready."""

        def is_calm() -> bool:
            self._lab.favour_tunnels()
            return not self._standing() and all(is_ready(self._daemons.status(node)) for node in self._daemons.nodes)

        wait_until(is_calm, timeout_s=CALM_TIMEOUT_S, what="calm", poll_s=0.5)

    def _standing(self) -> list[Told]:
        """What every daemon says at this moment: verdicts about pairs of locations, and findings."""
        return [told for node in self._daemons.nodes for told in _said(node, self._daemons.status(node))]

    def _history(self, since_ns: int) -> list[Told]:
        return [told for event in self._daemons.events(since_ns=since_ns) if (told := _told(event)) is not None]


def _said(node: str, status: object) -> Iterable[Told]:
    view = cast("Mapping[str, Sequence[Mapping[str, object]]]", status or {})
    for pair in view.get("pairs", ()):
        verdict = cast("Mapping[str, str]", pair["verdict"])
        if verdict["fault"] != CALM:
            yield Told(node=node, fault=verdict["fault"], culprit=verdict["culprit"], source="verdict")
    for finding in view.get("findings", ()):
        yield Told(node=node, fault=str(finding["fault"]), culprit=str(finding["culprit"]), source="finding")


def _told(event: Event) -> Told | None:
    sources = {"verdict.changed": "verdict", "fault.raised": "finding"}
    fault = str(event.fields.get("fault", ""))
    if event.name not in sources or fault == CALM:
        return None
    return Told(
        node=event.node,
        fault=fault,
        culprit=str(event.fields.get("culprit", "")),
        source=sources[event.name],
        at_ns=event.at_ns,
    )


def _heal(fault: Fault | StateFault) -> int:
    return fault.heal()


def _struck(fault: Fault | StateFault) -> str:
    return fault.plan.node if isinstance(fault, Fault) else fault.node


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns 0 when every cell is on the diagonal, or nothing was said of a healthy mesh, 1 when not.

    Returns 2 on failure.
    """
    options = _parser().parse_args(arguments)
    if options.healthy_minutes:
        return watch_calm(
            (options.topology,) if options.topology else TOPOLOGIES,
            options.healthy_minutes,
            backend=options.backend,
            output=options.output,
        )
    if options.merge:
        return _merge(options.merge, options.output)
    chosen = _sliced([each for each in trials() if _is_chosen(each, options)], *options.slice)
    if not chosen:
        print("bench-diagnosis: no such cell; --list shows them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(f"{each.topology:<14} {each.fault}" for each in chosen))
        return 0
    options.output.parent.mkdir(parents=True, exist_ok=True)
    cells: list[Cell] = []
    try:
        for topology in dict.fromkeys(each.topology for each in chosen):
            # One by one: an interrupted run leaves what it has measured.
            cells.extend(_play([each for each in chosen if each.topology == topology], topology, options))
    except LabError as error:
        print(f"bench-diagnosis: {error}", file=sys.stderr)
        return 2
    finally:
        if cells:
            write(cells, options.output, method=(__doc__ or "").strip())
    return _conclude(cells)


def _conclude(cells: Sequence[Cell]) -> int:
    print(render(cells))
    return 0 if all(cell.is_right for cell in cells) else 1


def _merge(paths: Sequence[Path], output: Path) -> int:
    """Join what several runs have measured; returns as `main` does."""
    try:
        documents = [read(path) for path in paths]
        cells, commit = joined(documents)
    except (OSError, ValueError) as error:
        print(f"bench-diagnosis: {error}", file=sys.stderr)
        return 2
    write(cells, output, method=(__doc__ or "").strip(), commit=commit, merged=[each.provenance for each in documents])
    return _conclude(cells)


def _is_chosen(trial: Trial, options: argparse.Namespace) -> bool:
    return (not options.only or trial.fault in options.only) and options.topology in (None, trial.topology)


def _sliced(chosen: Sequence[Trial], number: int, count: int) -> list[Trial]:
    """One of so many equal parts of each topology's cells."""
    return [
        trial
        for topology in dict.fromkeys(each.topology for each in chosen)
        for place, trial in enumerate(each for each in chosen if each.topology == topology)
        if place % count == number - 1
    ]


def _slice(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not 1 <= int(number) <= int(count or 0):
        raise argparse.ArgumentTypeError(f"{text} is no part of a whole, such as 2/6")
    return int(number), int(count)


def _play(chosen: Sequence[Trial], topology: str, options: argparse.Namespace) -> Iterator[Cell]:
    directory = options.output.resolve().parent / "diagnosis" / topology
    with Lab.up(topology, backend=options.backend) as lab:
        pairs = traffic_pairs(lab.topology)
        with (
            Discards(lab, directory),
            Daemons(lab, directory, settings=settings_for(lab.topology)) as daemons,
            Traffic(lab, directory, pairs=pairs, rate=RATE),
        ):
            bench = Bench(lab, daemons, patience_s=options.patience)
            bench.settle()
            for number, trial in enumerate(chosen, 1):
                cell = bench.play(trial)
                yield cell
                said = "right" if cell.is_right else f"{'also ' if cell.is_named else ''}{cell.given}"
                print(f"{topology} {number}/{len(chosen)} {cell.expected}: {said}", file=sys.stderr, flush=True)
                if cell.calm_ms is None:
                    print(f"{topology}: not calm after {cell.expected}; daemons start anew", file=sys.stderr)
                    for node in daemons.nodes:
                        daemons.restart(node)
                    bench.settle()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench-diagnosis ARGS=", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="CODE", help="this fault (may be given several times)")
    parser.add_argument("--topology", help="this topology only")
    parser.add_argument("--slice", type=_slice, default=(1, 1), metavar="N/M", help="the Nth of M parts of the cells")
    parser.add_argument("--merge", type=Path, nargs="+", metavar="FILE", help="no run: join the documents of several")
    parser.add_argument("--backend", default="auto", help="which kernel (default auto)")
    parser.add_argument("--patience", type=float, help="seconds to wait for the right name, whatever the fault")
    parser.add_argument(
        "--healthy-minutes", type=float, help="no faults: whether daemons at default settings keep silent for so long"
    )
    parser.add_argument("--list", action="store_true", help="show the cells and end")
    parser.add_argument("--output", type=Path, default=Path("build/bench/diagnosis.json"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
