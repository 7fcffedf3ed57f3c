"""Mutated inputs for every decoder: `python -m tests.property.fuzz --inputs 10000000` on every core there is.

Nothing but a refusal may come out of a decoder (`tests.property.decoders`). The inputs follow from seed, decoder and
number, so a run can be repeated; what escapes is printed with its bytes, as JSON on standard output.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from meshwatchd.model.errors import DecodeError
from tests.property.decoders import DECODERS, Decoder

BATCH = 2_000
PROGRESS_S = 30.0
MAX_BYTES = 4096
"""Of an input but for what one token adds: long ones cost time and find nothing that repetition does not."""
EXAMPLES = 3
"""Inputs told of each decoder and kind of error."""

TOKENS = (
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"\x7f",
    b"-1",
    b"1e999",
    b"NaN",
    b"null",
    b"true",
    b"9" * 20,
    b"9" * 400,
    b"\xc2\xb2",
    b"\xd9\xa3",
    b'"',
    b"\\",
    b"=",
    b"{",
    b"[" * 1100,
    b"\x91" * 1100,
    b"\r\n",
    b"\n\n",
    b"/33",
    b"::",
    b"%",
)
"""What decoders stumble over: halves of characters, digits that int() takes or refuses, lengths, nesting."""

EDGES = b'\0\1\x7f\x80\xff09"[{=-:\n'
RARE_TOKENS = (b"9" * 5000, b"[" * 100_000, b'{"x":' * 20_000, b"\x91" * 100_000)


class Batch(NamedTuple):
    """So many inputs for one decoder."""

    name: str
    seed: int
    number: int
    size: int


class Tried(NamedTuple):
    """What a batch came to.

    Attributes:
        escaped: kind of the error and its text, and the input, of each that was no refusal.
    """

    name: str
    inputs: int
    refused: int
    seconds: float
    escaped: list[tuple[str, bytes]]


def mutate(rng: random.Random, seeds: tuple[bytes, ...]) -> bytes:
    """An input that resembles one of the seeds; one in fifty is random throughout."""
    if rng.random() < 0.02:
        return rng.randbytes(rng.randrange(200))
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at % len(data)] = (
                    rng.choice(b'\0\1\x7f\x80\xff09"[{=-:\n') if rng.random() < 0.6 else rng.randrange(256)
                )
            case 2:
                del data[at : at + rng.choice((1, 1, 2, 4, 16))]
            case 3:
                data[at:at] = rng.choice(TOKENS)
            case 4:
                data[at : at + rng.choice((1, 2, 4, 8))] = rng.choice(TOKENS)
            case 5:
                data[at:at] = data[at : at + rng.randrange(1, 40)]
            case 6:
                del data[at:]
            case _:
                other = rng.choice(seeds)
                data[at:] = other[rng.randrange(len(other) + 1) :]
    del data[MAX_BYTES:]
    if rng.random() < 0.0005:
        at = rng.randrange(len(data) + 1)
        data[at:at] = rng.choice(RARE_TOKENS)
    return bytes(data)


def attempt(batch: Batch) -> Tried:
    """Give a decoder the inputs of a batch."""
    decoder: Decoder = DECODERS[batch.name]
    rng = random.Random(f"{batch.seed}/{batch.name}/{batch.number}")
    refusals: tuple[type[Exception], ...] = (DecodeError, *decoder.refusals)
    escaped: list[tuple[str, bytes]] = []
    refused, began = 0, time.monotonic()
    for _ in range(batch.size):
        data = mutate(rng, decoder.seeds)
        try:
            decoder.decode(data)
        except refusals:
            refused += 1
        except Exception as error:  # noqa: BLE001 - which kinds there are is the question
            escaped.append((f"{type(error).__name__}: {error}"[:200], data))
    return Tried(batch.name, batch.size, refused, time.monotonic() - began, escaped)


def batches(inputs: int, seed: int) -> Iterator[Batch]:
    """So many inputs at least, over all decoders by their shares, in turn."""
    whole = sum(decoder.share for decoder in DECODERS.values())
    left = {name: math.ceil(inputs * decoder.share / whole) for name, decoder in DECODERS.items()}
    number = 0
    while left:
        for name in tuple(left):
            size = min(BATCH, left[name])
            yield Batch(name, seed, number, size)
            left[name] -= size
            if not left[name]:
                del left[name]
        number += 1


class Report:
    """What a run comes to."""

    def __init__(self) -> None:
        self.inputs: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.escapes: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, str]]] = {}

    def add(self, tried: Tried) -> None:
        """Count a batch."""
        self.inputs[tried.name] += tried.inputs
        self.refused[tried.name] += tried.refused
        self.seconds[tried.name] = self.seconds.get(tried.name, 0.0) + tried.seconds
        for error, data in tried.escaped:
            self.escapes[tried.name] += 1
            kept = self.examples.setdefault(tried.name, [])
            kind = error.partition(":")[0]
            if sum(each["error"].startswith(f"{kind}:") for each in kept) < EXAMPLES:
                kept.append({"error": error, "input": data.hex()})

    def document(self, seed: int, seconds: float) -> dict[str, Any]:
        """All of it, for programs."""
        total = self.inputs.total()
        return {
            "inputs": total,
            "seconds": round(seconds, 1),
            "inputs_per_second": round(total / seconds),
            "seed": seed,
            "escaped": self.escapes.total(),
            "escapes": {
                name: {"count": count, "examples": self.examples[name]} for name, count in self.escapes.items()
            },
            "decoders": {
                name: {
                    "inputs": count,
                    "refused": self.refused[name],
                    "us_per_input": round(self.seconds[name] / count * 1e6, 1),
                }
                for name, count in sorted(self.inputs.items())
            },
        }


def run(inputs: int, seed: int, *, jobs: int) -> Report:
    """Try that many inputs in so many processes; 1 is this one."""
    report, told_s = Report(), time.monotonic()
    if jobs == 1:
        for batch in batches(inputs, seed):
            report.add(attempt(batch))
        return report
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for tried in pool.imap_unordered(attempt, batches(inputs, seed)):
            report.add(tried)
            if time.monotonic() - told_s > PROGRESS_S:
                told_s = time.monotonic()
                sys.stderr.write(f"{report.inputs.total()} inputs, {report.escapes.total()} escaped\n")
    return report


def main() -> int:
    """Run, print the document, and return 1 where anything has escaped."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000_000, help="how many (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another one makes other inputs (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    options = parser.parse_args()
    began = time.monotonic()
    report = run(options.inputs, options.seed, jobs=options.jobs)
    document = report.document(options.seed, time.monotonic() - began)
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n")
    return 1 if report.escapes else 0


if __name__ == "__main__":
    sys.exit(main())
