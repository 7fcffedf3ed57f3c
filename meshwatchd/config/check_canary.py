"""How the settings of one canary must fit together: which its kind has a use for, and which it cannot do without."""

from __future__ import annotations

from collections.abc import Iterator

from meshwatchd.config.values import Finding, check_address, check_address6
from meshwatchd.model.canary import Canary, CanaryExpect, CanaryKind, CanaryRole
from meshwatchd.model.units import SECOND

_TLS = (CanaryKind.TLS, CanaryKind.HTTP)


def check_canary(key: str, canary: Canary) -> Iterator[Finding]:
    """What is wrong with it; `key` is its place in the file."""
    check = check_address6 if ":" in canary.address else check_address
    yield from check(f"{key}.address", canary.address)
    if canary.kind is CanaryKind.UDP and canary.expect is CanaryExpect.SERVICE:
        yield Finding(
            key=f"{key}.expect",
            problem='"service" means a connection, and UDP has none',
            remedy='write expect = "answer", or kind = "tcp"',
        )
    yield from _check_strangers(key, canary)
    if canary.is_service:
        yield from _check_service(key, canary)


def _check_strangers(key: str, canary: Canary) -> Iterator[Finding]:
    """Settings that only other kinds read: whoever writes them expects what would not be done."""
    read_by: tuple[tuple[str, object, tuple[CanaryKind, ...]], ...] = (
        ("lookup", canary.lookup, (CanaryKind.DNS,)),
        ("connect", canary.connect, (CanaryKind.DNS,)),
        ("sni", canary.sni, _TLS),
        ("alpn", canary.alpn, _TLS),
        ("path", canary.path != "/", (CanaryKind.HTTP,)),
    )
    for name, value, kinds in read_by:
        if value and canary.kind not in kinds:
            yield Finding(
                key=f"{key}.{name}",
                problem=f'is of no use to kind = "{canary.kind.value}"',
                remedy=f'take it out, or write kind = "{kinds[0].value}"',
            )


def _check_service(key: str, canary: Canary) -> Iterator[Finding]:
    if canary.kind is CanaryKind.DNS and not canary.lookup:
        yield Finding(
            key=f"{key}.lookup",
            problem='is empty, and kind is "dns"',
            remedy='name what is asked for, as in lookup = "shop.default.svc.clusterset.local"',
        )
    if canary.kind is CanaryKind.DNS and not canary.control:
        yield Finding(
            key=f"{key}.control",
            problem="is empty, so a server that is dead could not be told from one that forwards in vain",
            remedy="name what the server always has, as in kubernetes.default.svc.cluster.local",
        )
    if canary.kind is CanaryKind.HTTP and canary.alpn and not canary.sni:
        yield Finding(
            key=f"{key}.alpn",
            problem="is offered in a TLS handshake, and without sni http makes none",
            remedy="name the server by sni, or take alpn out",
        )
    if canary.role is not CanaryRole.AUTO:
        yield Finding(
            key=f"{key}.role",
            problem=f'is of no use to kind = "{canary.kind.value}", which names what is wrong by itself',
            remedy='take it out, or write kind = "tcp"',
        )
    if canary.interval < SECOND:
        yield Finding(
            key=f"{key}.interval",
            problem=f'is shorter than one question of kind = "{canary.kind.value}" may take',
            remedy='write interval = "1s" or more',
        )
