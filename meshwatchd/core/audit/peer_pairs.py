"""Neighbour and FDB entry of a peer as one: whether flannel has written another machine in its place.

    a new machine gets the pods of a dead one         another MAC and another address, in both entries
    a node is rebooted and has another address        likewise, where flannel draws a MAC at each boot

flannel writes both entries, and the address in the roster or in `[mesh]` is the former one's until the new one is
heard, which a node without a daemon never is. Who breaks an entry changes one of the two: a neighbour with a MAC that
leads nowhere or to another peer, an FDB entry with another address.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from meshwatchd.model.audit import Entries
from meshwatchd.model.discovery import LocalView


class Pair(NamedTuple):
    """The MAC behind a gateway, and the address behind that MAC; empty without an FDB entry."""

    lladdr: str
    dst: str
    is_permanent: bool


def pairs_of(entries: Entries) -> dict[str, Pair]:
    """The pairs by gateway."""
    vteps = {each.lladdr: each.dst for each in entries.forwarding}
    return {
        each.address: Pair(each.lladdr, vteps.get(each.lladdr, ""), each.is_permanent)
        for each in entries.neighbours
        if each.lladdr
    }


def is_rewritten(
    gateway: str,
    now: Mapping[str, Pair],
    was: Mapping[str, Pair],
    *,
    gone: Collection[str],
    views: Iterable[LocalView],
) -> bool:
    """Whether a whole pair has taken the place of another one, and nobody speaks against it.

    Not told apart is somebody who writes both entries at a peer that is dead or runs no daemon, to where no peer is.

    Args:
        gateway: of the peer.
        now: what the device holds.
        was: what it held while all was well.
        gone: gateways of removed peers, whose MACs and addresses are free.
        views: what living nodes say of themselves.
    """
    new, old = now.get(gateway), was.get(gateway)
    if new is None or old is None or not (new.is_permanent and new.dst and old.dst):
        return False
    if new.lladdr == old.lladdr or new.dst == old.dst:
        return False
    # Another peer with the same MAC at present is at the same address.
    is_shared = any(new.dst == pair.dst for other, pair in now.items() if other != gateway)
    was_anothers = any(new.lladdr == pair.lladdr for other, pair in was.items() if other not in {gateway, *gone})
    return not (is_shared or was_anothers or any(_contradicts(view, gateway, new) for view in views))


def _contradicts(view: LocalView, gateway: str, pair: Pair) -> bool:
    """Whether a node is behind the gateway and elsewhere, or where the pair leads and behind another gateway."""
    if view.overlay_ip == gateway:
        return view.vtep_mac not in ("", pair.lladdr) or view.node_ip not in ("", pair.dst)
    return bool(view.overlay_ip) and (view.vtep_mac == pair.lladdr or view.node_ip == pair.dst)
