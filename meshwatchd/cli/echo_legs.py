"""ICMP echo to each address of a node, as legs beside the daemon's sessions: the kernel there answers, not the daemon.

Where echoes come back and probes do not, the daemon there or its port is what is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from meshwatchd.adapters.echo import Echo, Echoes
from meshwatchd.cli.legs import Leg, Place
from meshwatchd.cli.text import middle
from meshwatchd.model.ids import FlowClass

TIMEOUT_S = 1.0
OVER = "echo"


def addresses_of(place: Place | None, target: str) -> dict[str, str]:
    """The addresses to ask, by layer: of a node all that it has, else the one that was given."""
    if place is None:
        return {"address": target}
    if place.kind == "node":
        node = place.node
        found = {"underlay": node.node_ip, "wireguard": node.wireguard_ip, "overlay": node.overlay_ip}
        return {layer: address for layer, address in found.items() if address}
    return {place.kind: place.address}


class EchoLegs:
    """Some addresses, asked together.

    Args:
        size: bytes of each packet, with DF; 0 for small ones.
        is_fresh: a flow of its own for each request.

    Raises:
        KernelError: echoes may not be sent.
    """

    def __init__(
        self,
        name: str,
        addresses: dict[str, str],
        *,
        size: int = 0,
        is_fresh: bool = False,
        make: Callable[..., Echoes] = Echoes,
    ) -> None:
        self._name, self._addresses = name, addresses
        self._flow = FlowClass.FRESH if is_fresh else FlowClass.PINNED
        self._echoes = {layer: make(address, size=size, is_fresh=is_fresh) for layer, address in addresses.items()}
        self._found: dict[str, list[Echo]] = {layer: [] for layer in addresses}

    def ask(self) -> None:
        """One request to each address; takes as long as the slowest, a second at most."""
        if not self._echoes:
            return
        with ThreadPoolExecutor(len(self._echoes)) as pool:
            answers = pool.map(lambda each: each.ask(TIMEOUT_S), self._echoes.values())
            for layer, echo in zip(self._echoes, answers, strict=True):
                self._found[layer].append(echo)

    def close(self) -> None:
        """Close all sockets."""
        for each in self._echoes.values():
            each.close()

    def legs(self) -> Iterable[Leg]:
        """One for each address; a refusal of the kernel is its state."""
        for layer, found in self._found.items():
            answered = [echo.rtt_ns for echo in found if echo.rtt_ns is not None]
            last = found[-1] if found else Echo(None)
            state = "up" if last.rtt_ns is not None else last.problem.lower() or ("no answer" if found else "init")
            yield Leg(
                peer=self._name,
                layer=layer,
                over=OVER,
                flow=self._flow,
                address=self._addresses[layer],
                state=state,
                sent=len(found),
                lost=len(found) - len(answered),
                rtt_ns=middle(answered) if answered else 0,
                heard_ns=0,
            )
