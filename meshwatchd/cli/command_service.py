"""`meshwatchctl service`: is it discovery or datapath, for one service of several clusters."""

from __future__ import annotations

import asyncio
import re
import time
from concurrent.futures import ThreadPoolExecutor

import click
import msgspec

from meshwatchd.adapters.answers.tls import TlsWish
from meshwatchd.adapters.service.cluster_dns import CLUSTER_DOMAIN, ClusterDns, find_cluster_dns
from meshwatchd.adapters.service.connect import Knock
from meshwatchd.adapters.service.dns import render_server
from meshwatchd.adapters.service.gather import Questions, gather
from meshwatchd.adapters.service.memory import Memory
from meshwatchd.cli.addresses import DNS_PORT, Address, Server
from meshwatchd.cli.command_path import ask_daemon
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.render_service import ServiceView, render_service
from meshwatchd.cli.service_presets import PRESETS
from meshwatchd.cli.service_ways import find_ways
from meshwatchd.cli.text import is_stale
from meshwatchd.core.diagnosis.service_rules import judge
from meshwatchd.core.diagnosis.service_signs import is_reached
from meshwatchd.model.errors import ConfigError, ControlError, DecodeError
from meshwatchd.model.node_status import NodeStatus
from meshwatchd.model.service_check import Observations, Remembered
from meshwatchd.model.status import Status

DAEMON_S = 1.0
"""Of silence, for each of two questions."""

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}\.{_LABEL}")
_DOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")
# The names of Istio have underscores.
_SNI = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_ALPN = re.compile(r"[!-~]{1,255}")
_PATH = re.compile(r"/[!-~]*")


@click.command("service")
@click.argument("name", metavar="NAME.NAMESPACE")
@click.option("--dns", type=Server(), help="The DNS server; the one of this node's kubelet by default.")
@click.option("--also", type=Server(), help="A second DNS server to compare with, as Lighthouse itself.")
@click.option("--domain", default="clusterset.local", show_default=True, help="Of the set of clusters.")
@click.option("--port", type=click.IntRange(1, 65_535), help="Of the service; else what the API says, or 443 and 80.")
@click.option("--preset", type=click.Choice([*PRESETS]), help="Ports, SNI, ALPN and path of a known kind of gateway.")
@click.option("--tls", "is_tls", is_flag=True, help="Shake hands; no certificate is demanded to be good.")
@click.option("--sni", default="", help="Server name in the handshake; implies --tls.")
@click.option("--alpn", default="", help="Protocol in the handshake; implies --tls.")
@click.option("--http", "path", default="", metavar="PATH", help="GET this path, over TLS with --tls.")
@click.option("--at", type=Address(), multiple=True, help="Connect to this address, a gateway's, and ask no DNS.")
@click.option("--last", type=Address(), help="The address that the name had; the last one seen from here by default.")
@click.option("--no-api", "is_api_asked", default=True, flag_value=False, help="Do not run meshwatchd-kube.")
@click.pass_obj
def service(
    terminal: Terminal,
    *,
    name: str,
    dns: tuple[str, int] | None,
    also: tuple[str, int] | None,
    domain: str,
    port: int | None,
    preset: str | None,
    is_tls: bool,
    sni: str,
    alpn: str,
    path: str,
    at: tuple[str, ...],
    last: str | None,
    is_api_asked: bool,
) -> int:
    """Tell for a service of several clusters whether discovery or the datapath is at fault, step by step.

    Asks DNS, connects to four addresses of the name at most with a SYN and then 16 kB of zeros, on request speaks TLS
    and HTTP, and looks at the daemon's state of the way, and at the Kubernetes API where meshwatchd-kube is installed.
    Takes 3 s at most.

    Exit status: 0 the service answers, 1 doubtful, 2 broken, 3 nothing could be asked.
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(f"{name} is no NAME.NAMESPACE of a service, as shop.default")
    if not _DOMAIN.fullmatch(domain):
        raise click.UsageError(f"--domain {domain} is no domain, as clusterset.local")
    if path and not _PATH.fullmatch(path):
        raise click.UsageError(f"--http {path} is no path, as /ready")
    wish = _find_wish(sni, alpn, is_tls=is_tls)
    knocks: tuple[Knock, ...] = (Knock(port, wish, path),) if port else ()
    gateway = PRESETS[preset].knocks if preset else None
    if gateway is not None:
        if is_tls or alpn or path:
            raise click.UsageError(f"--preset {preset} sets TLS, ALPN and path: leave --tls, --alpn and --http out")
        if not at:
            raise click.UsageError(f"--preset {preset} tries a gateway, which no DNS name leads to: give --at ADDRESS")
        knocks = gateway(name, port or 0, sni)
    own = _find_dns(dns, is_needed=not at)
    questions = Questions(
        name=name,
        domain=domain.rstrip("."),
        own_domain=own.domain,
        server=None if at else dns or (own.address, DNS_PORT),
        also=also,
        knocks=knocks,
        like=Knock(0, wish, path),
        given=at,
        is_api_asked=is_api_asked,
    )
    note = PRESETS[preset].note if preset else ""
    view = _answer(terminal, questions, last, (f"DNS server: {own.source}",) * (not at) + (note,) * bool(note))
    terminal.answer(view, lambda: render_service(view, paint=terminal.paint))
    return int(view.judgement.health)


def _find_wish(sni: str, alpn: str, *, is_tls: bool) -> TlsWish | None:
    """None where TLS is not spoken."""
    if sni and not _SNI.fullmatch(sni):
        raise click.UsageError(f"--sni {sni!a} is no server name, as shop.example")
    if alpn and not _ALPN.fullmatch(alpn):
        raise click.UsageError(f"--alpn {alpn!a} is no protocol, as h2")
    return TlsWish(sni, alpn) if is_tls or sni or alpn else None


def _answer(terminal: Terminal, questions: Questions, last: str | None, notes: tuple[str, ...]) -> ServiceView:
    """Ask, judge, and remember where the name leads."""
    memory = None
    remembered = Remembered(addresses=(last,)) if last else None
    problems: list[str] = []
    if questions.server is not None:
        memory = Memory(f"{questions.name}.svc.{questions.domain}", render_server(questions.server))
        recalled, problem = memory.recall()
        remembered = remembered or recalled
        problems.append(problem)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(_ask_daemon, terminal)
        answers = asyncio.run(gather(questions._replace(remembered=remembered)))
        status, nodes, refusal = asked.result()
    addresses = [each.address for each in answers.connections]
    addresses += [address for group in (answers.api.endpoints or () if answers.api else ()) for address in group.ready]
    seen = Observations(
        name=questions.name,
        domain=questions.domain,
        answer=answers.answer,
        answer6=answers.answer6,
        control=answers.control,
        local=answers.local,
        also=answers.also,
        connections=answers.connections,
        ways=find_ways(addresses, status, nodes) if status is not None else (),
        daemon_problem=refusal,
        remembered=remembered,
        api=answers.api,
        api_problem=answers.api_problem,
    )
    if memory is not None and seen.addresses and is_reached(seen):
        problems.append(memory.keep(seen.addresses, is_local=seen.is_local))
    seen = msgspec.structs.replace(seen, notes=(*notes, *answers.notes, *filter(None, problems)))
    return ServiceView(judgement=judge(seen), observations=seen)


def _find_dns(given: tuple[str, int] | None, *, is_needed: bool) -> ClusterDns:
    """The DNS server of this node and the cluster's own domain; what is given goes before."""
    try:
        found = find_cluster_dns()
    except ConfigError as error:
        if given is None and is_needed:
            raise ControlError(EXIT_UNREACHABLE, str(error)) from error
        found = ClusterDns("", CLUSTER_DOMAIN, "")
    return found._replace(source="as given by --dns") if given is not None else found


def _ask_daemon(terminal: Terminal) -> tuple[Status | None, tuple[NodeStatus, ...], str]:
    """What the daemon knows, or why it is of no use."""
    try:
        status, nodes, refusal = ask_daemon(terminal, timeout_s=DAEMON_S)
    except DecodeError as error:
        return None, (), str(error)
    if status is not None and is_stale(status.at_ns, time.monotonic_ns()):
        return None, (), "its engine has stopped reporting"
    return status, nodes, str(refusal) if refusal is not None else ""
