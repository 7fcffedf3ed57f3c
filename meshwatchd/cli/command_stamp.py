"""`meshwatchctl stamp`: measures the way to a STAMP or TWAMP Light reflector of any maker; needs no daemon."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from random import SystemRandom
from typing import Final

import click
import msgspec

from meshwatchd.adapters.stamp_interop.measurement import Sample
from meshwatchd.adapters.stamp_interop.sender import Series, measure, resolve
from meshwatchd.cli.addresses import Address
from meshwatchd.cli.duration import Duration
from meshwatchd.cli.main import Terminal
from meshwatchd.cli.render_stamp import hint_at_silence, render_measurement, render_sample
from meshwatchd.config.keys import read_stamp_key
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.stamp import StampMode
from meshwatchd.wire.auth import MacKey
from meshwatchd.wire.report_tlv import FOLLOW_UP_BYTES, TIMESTAMP_INFORMATION_BYTES
from meshwatchd.wire.standard_probe import StandardProbe
from meshwatchd.wire.standard_tlv import DirectMeasurement, Location, class_of_service, destination_node_address
from meshwatchd.wire.tlv import Tlv, TlvType

EXIT_LOSSY: Final = 1
EXIT_DEAD: Final = 2
STAMP_PORT: Final = 862
MAX_PAYLOAD: Final = 65_507

_QUESTIONS: Final = {
    "location": Location.request().to_tlv(),
    "timestamp": Tlv(type=TlvType.TIMESTAMP_INFORMATION, value=bytes(TIMESTAMP_INFORMATION_BYTES)),
    "direct": DirectMeasurement(sender_tx=0).to_tlv(),
    "access": Tlv(type=TlvType.ACCESS_REPORT, value=bytes((2 << 4, 1, 0, 0))),
    "follow-up": Tlv(type=TlvType.FOLLOW_UP_TELEMETRY, value=bytes(FOLLOW_UP_BYTES)),
}


@click.command("stamp")
@click.argument("address")
@click.option("--port", type=click.IntRange(1, 65_535), default=STAMP_PORT, show_default=True, help="The reflector's.")
@click.option("--key-file", type=click.Path(path_type=Path), help="Key shared with the reflector: authenticated mode.")
@click.option("--open", "is_open", is_flag=True, help="Open mode even with a key, which then signs TLVs only.")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=10, show_default=True, help="How many packets.")
@click.option("--interval", type=Duration(), default="100ms", show_default=True, help="From one packet to the next.")
@click.option("--wait", type=Duration(), default="1s", show_default=True, help="For answers, after the last packet.")
@click.option("--size", type=click.IntRange(44, MAX_PAYLOAD), help="Bytes of UDP payload, by Extra Padding.")
@click.option("--dscp", type=click.IntRange(0, 63), default=0, show_default=True, help="Of the packets.")
@click.option("--ssid", type=click.IntRange(0, 65_535), help="Session identifier; drawn by default, 0 for none.")
@click.option("--tlv", "questions", multiple=True, metavar="TLV", help="Ask a question; may be given several times.")
@click.option("-4", "family", flag_value=4, type=int, help="Look up IPv4 addresses only.")
@click.option("-6", "family", flag_value=6, type=int, help="Look up IPv6 addresses only.")
@click.option("--source", type=Address(), metavar="ADDRESS", help="Send from this address of this node.")
@click.option("--source-port", type=click.IntRange(1, 65_535), help="Send from this port; any by default.")
@click.option("--dont-fragment", "is_unfragmented", is_flag=True, help="Set DF: what is too long for the path is lost.")
@click.option("--fresh/--pinned", "is_fresh", default=False, help="A new source port for each packet, or one for all.")
@click.pass_obj
def stamp(
    terminal: Terminal,
    *,
    address: str,
    port: int,
    key_file: Path | None,
    is_open: bool,
    count: int,
    interval: int,
    wait: int,
    size: int | None,
    dscp: int,
    ssid: int | None,
    questions: tuple[str, ...],
    family: int | None,
    source: str | None,
    source_port: int | None,
    is_unfragmented: bool,
    is_fresh: bool,
) -> int:
    """Measure loss, delay and order of packets to ADDRESS and back, by STAMP (RFC 8762); needs no daemon.

    TLV is location, timestamp, direct, access, follow-up, cos:DSCP, destination:ADDRESS, or TYPE:HEX for any other.
    A stateful reflector tells on which way packets were lost, unless each comes from a port of its own.

    Exit status: 0 all packets were answered, 1 some were not or could not be sent, 2 none was.
    """
    probe = StandardProbe(
        mode=StampMode.OPEN if is_open or key_file is None else StampMode.AUTHENTICATED,
        key=None if key_file is None else _read_key(key_file),
        ssid=SystemRandom().randrange(1, 1 << 16) if ssid is None else ssid,
        tlvs=tuple(_question(text) for text in questions),
        payload_bytes=size or 0,
    )
    if not probe.is_size_possible():
        raise click.UsageError(
            f"--size {size}: this packet has {probe.least_bytes()} bytes, and padding at least 4 more"
        )
    if is_fresh and source_port:
        raise click.UsageError(
            "--source-port is one port, and --fresh wants one for each packet: leave one of them out"
        )
    series = Series(
        address=address,
        port=port,
        probe=probe,
        count=count,
        interval_ns=interval,
        wait_ns=wait,
        dscp=dscp,
        is_fresh=is_fresh,
        is_unfragmented=is_unfragmented,
        family=_family(family, source),
        source=source or "",
        source_port=source_port or 0,
    )

    return _measure(terminal, series)


def _measure(terminal: Terminal, series: Series) -> int:
    def show(sample: Sample) -> None:
        if not terminal.is_json:
            click.echo(render_sample(sample))

    began_ns = time.time_ns()
    try:
        resolved = resolve(series)
        result = measure(resolved, show)
    except OSError as error:
        raise click.UsageError(f"{series.address} port {series.port}: {error.strerror or error}") from error
    hint = hint_at_silence(result, port=series.port, mode=series.probe.mode)
    record = {**_describe(series, resolved.address, began_ns), "hint": hint, **msgspec.to_builtins(result)}
    terminal.answer(record, lambda: render_measurement(result, terminal.paint) + (f"{hint}\n" if hint else ""))
    if result.received == result.sent and not result.unsent:
        return 0
    return EXIT_LOSSY if result.received else EXIT_DEAD


def _describe(series: Series, target: str, began_ns: int) -> dict[str, object]:
    """What was measured, for the record: two series can be compared by it."""
    probe = series.probe
    return {
        "address": series.address,
        "target": target,
        "port": series.port,
        "mode": probe.mode.value,
        "start": datetime.fromtimestamp(began_ns / 1e9, UTC).isoformat(timespec="milliseconds"),
        "settings": {
            "count": series.count,
            "interval_ns": series.interval_ns,
            "wait_ns": series.wait_ns,
            "payload_bytes": max(probe.payload_bytes, probe.least_bytes()),
            "dscp": series.dscp,
            "ssid": probe.ssid,
            "tlvs": [tlv.type for tlv in probe.tlvs],
            "fresh": series.is_fresh,
            "source": series.source,
            "source_port": series.source_port,
            "dont_fragment": series.is_unfragmented,
        },
    }


def _family(version: int | None, source: str | None) -> int:
    """What was asked for, or what the source is."""
    wanted = version or (ip_address(source).version if source else 0)
    return {0: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}[wanted]


def _read_key(path: Path) -> MacKey:
    try:
        # The other side may have chosen a short one; that is no reason not to measure.
        return MacKey(read_stamp_key(path, key="--key-file", least_bytes=1))
    except ConfigError as error:
        raise click.UsageError(str(error)) from error


def _question(text: str) -> Tlv:
    """One --tlv; raises UsageError."""
    name, _, value = text.partition(":")
    if name in _QUESTIONS and not value:
        return _QUESTIONS[name]
    try:
        if name == "cos":
            return class_of_service(_number(value, 63))
        if name == "destination":
            return destination_node_address(ip_address(value))
        return Tlv(type=_number(name, 255), value=bytes.fromhex(value))
    except ValueError as error:
        known = ", ".join([*_QUESTIONS, "cos:DSCP", "destination:ADDRESS", "TYPE:HEX"])
        raise click.UsageError(f"--tlv {text}: {error}; write one of {known}") from error


def _number(text: str, most: int) -> int:
    number = int(text)
    if not 0 <= number <= most:
        raise ValueError(f"{number} is not in 0..{most}")
    return number
