"""`python -m netnslab.bench [NAMES...] [OPTIONS]`: measure, write JSON, show a table."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import NamedTuple

from netnslab.bench import bird, busy, cpu, detection, flood, frr, lateness, pooled, report, scale
from netnslab.errors import LabError

INTERRUPTED = 130
"""128 + SIGINT, as a shell would say."""

Run = Callable[[argparse.Namespace], dict[str, object]]


class Benchmark(NamedTuple):
    """One benchmark and the columns of its table."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Run
    columns: Sequence[str]


BENCHMARKS = MappingProxyType(
    {
        detection.NAME: Benchmark(detection.add_arguments, detection.run, detection.COLUMNS),
        pooled.NAME: Benchmark(pooled.add_arguments, pooled.run, pooled.COLUMNS),
        cpu.NAME: Benchmark(cpu.add_arguments, cpu.run, cpu.COLUMNS),
        scale.NAME: Benchmark(scale.add_arguments, scale.run, scale.COLUMNS),
        lateness.NAME: Benchmark(lateness.add_arguments, lateness.run, lateness.COLUMNS),
        flood.NAME: Benchmark(flood.add_arguments, flood.run, flood.COLUMNS),
        busy.NAME: Benchmark(busy.add_arguments, busy.run, busy.COLUMNS),
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for; 2 when something could not be measured, 130 when it was interrupted."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    names, rest = split(words)
    lacking = [program for program in (*bird.PROGRAMS, *frr.PROGRAMS) if shutil.which(program) is None]
    if lacking:
        print(f"bench: lacking {', '.join(lacking)}; `make tools` installs them", file=sys.stderr)
        return 2
    parsed = [(name, _parser(name).parse_args(rest)) for name in names]
    try:
        for name, options in parsed:
            found = BENCHMARKS[name].run(options)
            report.show(found, BENCHMARKS[name].columns, report.write(found))
    except LabError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("bench: interrupted; everything is removed", file=sys.stderr)
        return INTERRUPTED
    return 0


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The benchmarks that are named first (all of them when none is), and the options behind them."""
    names = []
    for word in words:
        if word not in BENCHMARKS:
            break
        names.append(word)
    return names or list(BENCHMARKS), list(words[len(names) :])


def _parser(name: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"netnslab.bench {name}")
    BENCHMARKS[name].add_arguments(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
