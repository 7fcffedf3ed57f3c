"""Dead ends that lose a part of a node's pods: a longer prefix inside the one that the mesh routes.

    10.244.3.0/24 dev kilo0             the mesh's route to a node's pods, whose first address answers every probe
    blackhole 10.244.3.128/25           somebody's, which is taken before it for half of them

The kernel is asked about each, by its first address: a policy rule or a longer route may lead packets past it. What a
routing daemon or Calico writes is its own summary of longer routes, such as Calico's `blackhole 10.244.3.128/26 proto
bird` for addresses that it has given to this very node; so is one that holds a longer route of the mesh.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from errno import EACCES, EHOSTUNREACH, EINVAL, ENETUNREACH
from ipaddress import IPv4Network
from types import MappingProxyType

from meshwatchd.core.audit.view import View
from meshwatchd.model.audit import MAIN_TABLE, RTPROT_BOOT
from meshwatchd.model.prefixes import is_part
from meshwatchd.model.route_lookup import RouteAnswer, RouteQuestion
from meshwatchd.model.topology import Node

NOWHERE = MappingProxyType(
    {
        EHOSTUNREACH: "unreachable",
        ENETUNREACH: "no route",
        EACCES: "prohibited",
        EINVAL: "blackhole",
    }
)
"""What the kernel answers of a packet that goes nowhere: fib_props in net/ipv4/fib_semantics.c, fib4_rule_action() in
net/ipv4/fib_rules.c. EXDEV, which a strict rp_filter makes of a source, is a fault of its own."""

TCP, UDP = 6, 17
"""linux/in.h."""
_PROTOCOLS = MappingProxyType({TCP: "TCP ", UDP: "UDP "})

RTPROT_STATIC = 4
"""linux/rtnetlink.h."""

_BY_HAND = (RTPROT_BOOT, RTPROT_STATIC)
"""`ip route add`, and what reads its routes from a file. Daemons that make routes mark them as theirs."""


def goes_nowhere(question: RouteQuestion, answer: RouteAnswer) -> bool:
    """Of what comes in, EINVAL may also mean that its source cannot be answered, which is a question of its own."""
    is_of_source = answer.errno == EINVAL and question.iif and not answer.rule.endswith(" blackhole")
    return answer.errno in NOWHERE and not is_of_source


def say_way(question: RouteQuestion, answer: RouteAnswer) -> str:
    """What becomes of the packet that was asked about."""
    entry = f" that come in by {question.iif}" if question.iif else ""
    kind = _PROTOCOLS.get(answer.protocol, "")
    return f"{kind}packets from {question.source} to {question.destination}{entry} {say_end(answer)}"


def say_end(answer: RouteAnswer) -> str:
    """Where it goes, or why it goes nowhere."""
    return f"go nowhere: {NOWHERE[answer.errno]}" if answer.errno else f"leave by {answer.device}"


def dead_parts(view: View, peers: Iterable[Node], routes: Container[str]) -> Iterator[tuple[Node, str]]:
    """Each dead end inside the pods of a node, and that node.

    Args:
        view: routes and dead ends; the mesh.
        peers: other nodes than this one.
        routes: prefixes that the mesh routes: pods that none of them is for are not known to be that node's.
    """
    owners = {each.pod_cidr: each for each in peers if each.pod_cidr in routes and ":" not in each.pod_cidr}
    lengths = {int(prefix.rpartition("/")[2]) for prefix in owners}
    ends = (each for each in view.snapshot.dead_ends if each.table == MAIN_TABLE and each.protocol in _BY_HAND)
    for prefix in dict.fromkeys(each.dst for each in ends):
        network = IPv4Network(prefix)
        wider = (str(network.supernet(new_prefix=length)) for length in lengths if length < network.prefixlen)
        owner = next((owners[each] for each in wider if each in owners), None)
        if owner is not None and not _is_summary(view, prefix):
            yield owner, prefix


def _is_summary(view: View, prefix: str) -> bool:
    routes = (each for each in view.snapshot.device_routes if each.table == MAIN_TABLE and ":" not in each.dst)
    return any(each.dst != prefix and is_part(each.dst, prefix) for each in routes)
