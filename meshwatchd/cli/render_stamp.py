"""How a STAMP measurement reads."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.adapters.stamp_interop.measurement import Measurement, Place, Sample, TlvReport, rtt_ns
from meshwatchd.adapters.stamp_interop.spread import Spread
from meshwatchd.cli.text import Paint
from meshwatchd.model.stamp import StampMode


def render_sample(sample: Sample) -> str:
    """One answer, as it comes."""
    reply = sample.reply
    notes = [f"seq {sample.sequence}", f"rtt {_ms(rtt_ns(sample))}"]
    if reply.sequence != sample.sequence:
        notes.append(f"reflector's seq {reply.sequence}")
    if reply.is_integrity_failed:
        notes.append("TLVs do not verify")
    if reply.is_malformed:
        notes.append("TLVs are cut short")
    return "  ".join(notes)


def render_measurement(result: Measurement, paint: Paint) -> str:
    """The sum, each line one thing; lines about what did not happen are left out."""
    return "\n".join(_lines(result, paint)) + "\n"


def hint_at_silence(result: Measurement, *, port: int, mode: StampMode) -> str:
    """What to look at where no packet was answered; empty where one was."""
    if result.received or not result.sent:
        return ""
    if "unreachable" in result.discarded:
        return (
            f"nothing listens on UDP port {port} there: STAMP has 862, reflectors of TWAMP Light often another (--port)"
        )
    if "prohibited" in result.discarded:
        return f"a firewall there or on the way rejects UDP port {port}: have it admit this source address"
    if "too-big" in result.discarded:
        return "packets of this size do not fit the path: measure with a smaller --size, or without --dont-fragment"
    if "bad-base-tag" in result.discarded:
        return "answers do not verify: compare the key on both sides (--key-file)"
    if mode is StampMode.AUTHENTICATED:
        return (
            f"no answer: check that the reflector listens on UDP port {port}, is in authenticated mode with this key, "
            "and admits this source address, as do the firewalls on the way"
        )
    return (
        f"no answer: check that the reflector listens on UDP port {port}, is in open mode (authenticated needs "
        "--key-file), and admits this source address, as do the firewalls on the way"
    )


def _lines(result: Measurement, paint: Paint) -> Iterator[str]:
    role = "ok" if not result.lost else "warning" if result.received else "critical"
    lost = f"{result.lost} lost ({100 * result.lost / max(1, result.sent):.3g} %)"
    yield f"{result.sent} sent, {result.received} answered, {paint(lost, role)}"
    yield from _loss(result)
    for count, what in ((result.duplicates, "answered more than once"), (result.reordered, "out of order")):
        if count:
            yield paint(f"{count} {what}", "warning")
    for reason, count in sorted(result.unsent.items()):
        yield paint(f"{count} not sent: {reason}", "warning")
    for reason, count in sorted(result.discarded.items()):
        yield paint(f"{count} discarded: {reason}", "warning")
    if not result.received:
        return
    yield from _delays(result, paint)
    yield f"reflector   {result.reflector}, TTL {result.ttl_seen or '?'} there, {result.ttl_returned or '?'} back"
    if not result.is_ssid_returned:
        yield paint("the reflector does not repeat the SSID: it knows no RFC 8972, or no STAMP", "dim")
    if result.integrity_failures:
        yield paint(f"{result.integrity_failures} answers whose TLVs do not verify, here or there", "warning")
    if result.place is not None:
        yield _place(result.place)
    for report in result.tlvs:
        yield _tlv(report, paint)


def _delays(result: Measurement, paint: Paint) -> Iterator[str]:
    for name, spread in (("round trip", result.rtt), ("there", result.forward), ("back", result.reverse)):
        if spread is not None:
            yield f"{name:<10}  {_spread(spread)}"
    if result.jitter is not None:
        yield f"jitter      there {_ms(result.jitter.forward_ns)}, back {_ms(result.jitter.reverse_ns)}"
    if result.clock_error_ns is None:
        yield paint("one-way delays: unknown, the clocks are not both synchronized", "dim")
    else:
        yield f"one-way delays may be off by {_ms(result.clock_error_ns)}"


def _loss(result: Measurement) -> Iterator[str]:
    if result.loss is not None and result.lost:
        loss = result.loss
        yield f"lost there {loss.forward}, lost back {loss.reverse}, undetermined {loss.undetermined}"
    elif result.lost and result.received:
        yield "on which way they were lost is unknown: no count of the reflector's (try --pinned --tlv direct)"


def _tlv(report: TlvReport, paint: Paint) -> str:
    flags = [f"U in {report.unrecognized}"] * bool(report.unrecognized)
    flags += [f"M in {report.malformed}"] * bool(report.malformed)
    verdict = paint(", ".join(flags), "warning") if flags else "understood"
    shown = report.value if len(report.value) <= 64 else f"{report.value[:64]}..."
    return f"TLV {report.type} {report.name}: {report.returned} returned, {verdict}  {shown}".rstrip()


def _place(place: Place) -> str:
    source, destination = place.source or "?", place.destination or "?"
    return f"location    from {source} port {place.source_port} to {destination} port {place.destination_port}"


def _spread(spread: Spread) -> str:
    figures = (
        ("min", spread.min_ns),
        ("mean", spread.mean_ns),
        ("median", spread.median_ns),
        ("p95", spread.p95_ns),
        ("p99", spread.p99_ns),
        ("max", spread.max_ns),
        ("deviation", spread.deviation_ns),
        ("jitter", spread.jitter_ns),
    )
    return "  ".join(f"{name} {value_ns / 1e6:.3f}" for name, value_ns in figures) + " ms"


def _ms(duration_ns: int) -> str:
    return f"{duration_ns / 1e6:.3f} ms"
