"""Everything that is asked about a service, within one limit of time.

    0 s       DNS: up to five questions at once       API: meshwatchd-kube
    0.95 s    the ports are known, or guessed
              connections, all at once                API, still
    2.3 s     whatever has not answered is silent

Where DNS and API answer at once, the connections begin at once. A SYN has 1.05 s at least: the kernel repeats it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from meshwatchd.adapters.service.api import ask_api
from meshwatchd.adapters.service.connect import Knock, Target, connect
from meshwatchd.adapters.service.dns import Server, look_up
from meshwatchd.model.service_check import ApiFacts, Connection, Lookup, Origin, Remembered

PORTS_S: Final = 0.95
END_S: Final = 2.3
"""Of the 3 s in which an answer is promised; the rest is for starting and for showing it."""

MAX_ADDRESSES: Final = 4
"""Of a name; an operator may give more."""
MAX_PORTS: Final = 4
GUESSED_PORTS: Final = (443, 80)
CONTROL_NAME: Final = "kubernetes.default.svc"
"""The API's own service: it is in the cluster's domain always."""


class Questions(NamedTuple):
    """What is asked.

    Attributes:
        name: NAME.NAMESPACE.
        domain: of the set; own_domain: of this cluster.
        server: None where DNS is not asked, since the addresses are given.
        also: a second server.
        knocks: ports to try; none for those that the API says, or else 443 and 80.
        like: how such a port is tried.
        given: addresses to connect to in the place of the name's.
        remembered: the addresses to try where the name has none.
        is_api_asked: whether meshwatchd-kube is run.
    """

    name: str
    domain: str
    own_domain: str
    server: Server | None
    also: Server | None = None
    knocks: tuple[Knock, ...] = ()
    like: Knock = Knock(0)
    given: tuple[str, ...] = ()
    remembered: Remembered | None = None
    is_api_asked: bool = True


class Answers(NamedTuple):
    """What was answered; see `Observations` for the fields."""

    answer: Lookup | None = None
    answer6: Lookup | None = None
    control: Lookup | None = None
    local: Lookup | None = None
    also: Lookup | None = None
    connections: tuple[Connection, ...] = ()
    api: ApiFacts | None = None
    api_problem: str = ""
    notes: tuple[str, ...] = ()


async def gather(questions: Questions) -> Answers:
    """Ask everything; returns within END_S whatever is silent."""
    began_s = asyncio.get_running_loop().time()
    end_s = began_s + END_S
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(_ask_api(questions, end_s))
        answers = await _ask_dns(questions)
        if not questions.knocks and questions.is_api_asked:
            await asyncio.wait([asked], timeout=max(0.0, began_s + PORTS_S - asyncio.get_running_loop().time()))
        facts = asked.result()[0] if asked.done() else None
        addresses, origin = _addresses(questions, answers)
        tried = addresses if origin is Origin.GIVEN else spread(addresses)
        targets = list(_targets(questions, tried, origin, facts))
        connections = await asyncio.gather(*(connect(target, end_s) for target in targets))
        api, problem = await asked
    notes = (f"{len(tried)} of {len(addresses)} addresses were tried",) * (len(tried) < len(addresses))
    return answers._replace(connections=tuple(connections), api=api, api_problem=problem, notes=notes)


def spread(addresses: Sequence[str]) -> tuple[str, ...]:
    """At most four: some of each family, from the first to the last of the list."""
    fours = [each for each in addresses if ":" not in each]
    sixes = [each for each in addresses if ":" in each]
    share = min(len(sixes), max(MAX_ADDRESSES // 2, MAX_ADDRESSES - len(fours)))
    return (*_evenly(fours, MAX_ADDRESSES - share), *_evenly(sixes, share))


def _evenly(some: Sequence[str], count: int) -> Iterator[str]:
    picks = min(count, len(some))
    for number in range(picks):
        yield some[number * (len(some) - 1) // max(1, picks - 1)]


async def _ask_api(questions: Questions, end_s: float) -> tuple[ApiFacts | None, str]:
    return await ask_api(questions.name, end_s) if questions.is_api_asked else (None, "")


async def _ask_dns(questions: Questions) -> Answers:
    server, also = questions.server, questions.also
    if server is None:
        return Answers()
    name = f"{questions.name}.svc.{questions.domain}"
    own = f"{questions.name}.svc.{questions.own_domain}"
    answer, answer6, control, local, second = await asyncio.gather(
        look_up(server, name),
        look_up(server, name, "AAAA"),
        look_up(server, f"{CONTROL_NAME}.{questions.own_domain}"),
        _unless(own == name, server, own),
        _unless(also is None, also or server, name),
    )
    return Answers(answer, answer6, control, local, second)


async def _unless(is_spared: bool, server: Server, name: str) -> Lookup | None:
    return None if is_spared else await look_up(server, name)


def _addresses(questions: Questions, answers: Answers) -> tuple[tuple[str, ...], Origin]:
    """Those that are given, or else the name's, or else those that it had before."""
    if questions.given:
        return questions.given, Origin.GIVEN
    found = [address for lookup in (answers.answer, answers.answer6) if lookup for address in lookup.addresses]
    if not found and questions.remembered is not None and answers.answer is not None:
        return questions.remembered.addresses, Origin.LAST
    return tuple(found), Origin.ANSWER


def _targets(
    questions: Questions, addresses: tuple[str, ...], origin: Origin, facts: ApiFacts | None
) -> Iterator[Target]:
    """These addresses, and one endpoint: a host's packets to a service's address need its own translation."""
    knocks, is_guessed = questions.knocks, False
    if not knocks:
        ports = facts.tcp_ports[:MAX_PORTS] if facts is not None else ()
        is_guessed = not ports
        knocks = tuple(questions.like._replace(port=port) for port in ports or _guess(questions.like))
    for address in addresses:
        yield from (Target(address, origin, knock, is_guessed) for knock in knocks)
    if origin is Origin.ANSWER and facts is not None:
        yield from _endpoint(facts, set(addresses))


def _guess(like: Knock) -> tuple[int, ...]:
    """What speaks TLS is at 443, what speaks plain HTTP at 80."""
    if like.tls is not None:
        return GUESSED_PORTS[:1]
    return GUESSED_PORTS[1:] if like.path else GUESSED_PORTS


def _endpoint(facts: ApiFacts, tried: Iterable[str]) -> Iterator[Target]:
    """One ready endpoint of another cluster, or else of this one if it exports the service."""
    for group in sorted(facts.exported_endpoints, key=lambda each: not each.cluster):
        for address in group.ready:
            if address not in tried and group.ports:
                yield Target(address, Origin.ENDPOINT, Knock(group.ports[0]))
                return
