"""Faults as context managers: what breaks, when, and the verdict it deserves.

    with faults.leader_dead(lab, "b1"):                 # strikes here, is gone after the block
        ...
    with faults.overlay_black_hole_new_flows(lab, "b1", memory_s=5).armed() as fault:
        ...                                             # remembers flows, all is well
        fault.inject()                                  # remembered flows live, new ones die
        fault.heal()                                    # all is well again, still remembering

Faults are written into the lab's record, so another process can list and heal them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from netnslab import ownership
from netnslab.build import load_nft
from netnslab.errors import LabError
from netnslab.fault_plans import DEFAULT_MEMORY_S, PLANS, ExpectedVerdict, FaultPlan
from netnslab.lab import Lab
from netnslab.ownership import FaultRecord

__all__ = [
    "ExpectedVerdict",
    "Fault",
    "active",
    "leader_dead",
    "leader_stops_forwarding",
    "make",
    "overlay_black_hole",
    "overlay_black_hole_new_flows",
    "random_loss",
    "udp_port_blocked",
    "wireguard_port_blocked",
]


class Fault:
    """One fault in one lab. Arming, injecting and healing are one nftables transaction each."""

    def __init__(self, lab: Lab, plan: FaultPlan, *, is_armed: bool = False) -> None:
        self.plan = plan
        self._lab = lab
        self._place = lab.site.inhabitant(plan.place)
        self._is_armed = is_armed
        self._is_armed_by_block = False

    @property
    def expected(self) -> ExpectedVerdict:
        """The verdict it deserves.

        Raises:
            LabError: it is a disturbance without one, such as random loss.
        """
        if self.plan.expected is None:
            raise LabError(f"{self.plan.kind} is no fault of the catalogue and expects no verdict")
        return self.plan.expected

    @property
    def is_armed(self) -> bool:
        """Whether flows are being remembered; always False for faults without memory."""
        return self._is_armed

    def arm(self) -> None:
        """Start remembering flows, from none; all packets pass. Does nothing for faults without memory."""
        if not self.plan.has_memory:
            return
        self._remember(is_injected=False)
        load_nft(self._place, self.plan.arm_text())
        self._is_armed = True

    def inject(self) -> int:
        """Start the fault.

        Returns:
            CLOCK_MONOTONIC in nanoseconds when nft returned, a few milliseconds after the transaction.

        Raises:
            LabError: it needs arming first.
        """
        if self.plan.has_memory and not self._is_armed:
            raise LabError(f"{self.plan.kind} spares the flows it has seen: arm it while all is well, then inject it")
        self._remember(is_injected=True)
        load_nft(self._place, self.plan.inject_text())
        return time.monotonic_ns()

    def heal(self) -> int:
        """End the fault; a fault with memory stays armed.

        Returns:
            CLOCK_MONOTONIC in nanoseconds when nft returned.
        """
        load_nft(self._place, self.plan.heal_text())
        healed_ns = time.monotonic_ns()
        if self._is_armed:
            self._remember(is_injected=False)
        else:
            self._forget()
        return healed_ns

    def remove(self) -> None:
        """End the fault and forget all flows: nothing of it is left."""
        load_nft(self._place, self.plan.remove_text())
        self._is_armed = False
        self._forget()

    @contextmanager
    def armed(self) -> Iterator[Self]:
        """Arm for the length of the block; injecting is up to the block."""
        self.arm()
        try:
            yield self
        finally:
            self.remove()

    def dropped_packets(self) -> int:
        """How many packets it has dropped since it was armed or injected."""
        command = ["nft", "-j", "list", "counters", "table", *self.plan.table.split()]
        listing = json.loads(self._place.run(command, check=True).stdout)["nftables"]
        return sum(int(each["counter"]["packets"]) for each in listing if "counter" in each)

    def remembered_flows(self) -> int:
        """How many outer flows it knows at the moment."""
        command = ["nft", "-j", "list", "set", *self.plan.table.split(), "known"]
        listing = json.loads(self._place.run(command, check=True).stdout)["nftables"]
        return sum(len(each["set"].get("elem", ())) for each in listing if "set" in each)

    def __enter__(self) -> Self:
        if not self._is_armed:
            self.arm()
            self._is_armed_by_block = True
        self.inject()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_armed_by_block:
            self._is_armed_by_block = False
            self.remove()
        else:
            self.heal()

    def _remember(self, *, is_injected: bool) -> None:
        with ownership.updating(self._lab.lab_id) as record:
            record.faults = [each for each in record.faults if not self._is_mine(each)]
            record.faults.append(
                FaultRecord(
                    kind=self.plan.kind,
                    node=self.plan.node,
                    is_injected=is_injected,
                    parameters=dict(self.plan.parameters),
                )
            )

    def _forget(self) -> None:
        with ownership.updating(self._lab.lab_id) as record:
            record.faults = [each for each in record.faults if not self._is_mine(each)]

    def _is_mine(self, record: FaultRecord) -> bool:
        own = self.plan.kind, self.plan.node, self.plan.parameters.get("port")
        return own == (record.kind, record.node, record.parameters.get("port"))


def make(lab: Lab, kind: str, node: str, parameters: Mapping[str, float] | None = None) -> Fault:
    """A fault by the name of its kind.

    Raises:
        LabError: there is no such kind or node, or a parameter is missing.
    """
    if kind not in PLANS:
        raise LabError(f"there is no fault {kind!r}; faults: {', '.join(PLANS)}")
    lab.node(node)
    return Fault(lab, PLANS[kind](lab.topology, node, parameters or {}))


def active(lab: Lab) -> list[tuple[Fault, FaultRecord]]:
    """The faults that are armed or injected in a lab, by whichever process."""
    return [
        (
            Fault(
                lab,
                PLANS[each.kind](lab.topology, each.node, each.parameters),
                is_armed=_has_memory(lab, each),
            ),
            each,
        )
        for each in ownership.read(lab.lab_id).faults
        if not each.undo
    ]


def overlay_black_hole_new_flows(lab: Lab, leader: str, *, memory_s: float = DEFAULT_MEMORY_S) -> Fault:
    """New flows of the leader's overlay are lost without trace; flows seen within `memory_s` seconds live on.

    The memory is of outer flows, and VXLAN has 28 232 outer source ports: after n inner flows to one node, a
    new one meets a remembered port with probability 1 - exp(-n / 28232). 400 flows a second remembered for
    60 s make that 57 %, for 5 s 7 %. Choose the memory accordingly.
    """
    return make(lab, "overlay-new-flows", leader, {"memory_s": memory_s})


def overlay_black_hole(lab: Lab, leader: str) -> Fault:
    """All overlay packets from the leader are lost without trace."""
    return make(lab, "overlay-black-hole", leader)


def leader_stops_forwarding(lab: Lab, leader: str) -> Fault:
    """The leader is well but passes nothing on."""
    return make(lab, "relay-not-forwarding", leader)


def leader_dead(lab: Lab, leader: str) -> Fault:
    """The leader is cut off from everything, silently."""
    return make(lab, "leader-dead", leader)


def wireguard_port_blocked(lab: Lab, leader: str) -> Fault:
    """The mesh's WireGuard port is blocked to and from the leader."""
    return make(lab, "wireguard-blocked", leader)


def udp_port_blocked(lab: Lab, node: str, *, port: int) -> Fault:
    """One UDP port is blocked to and from a node."""
    return make(lab, "udp-port-blocked", node, {"port": port})


def random_loss(lab: Lab, node: str, *, ratio: float) -> Fault:
    """A share of a node's IP packets is lost in each direction."""
    return make(lab, "random-loss", node, {"ratio": ratio})


def mtu_black_hole(lab: Lab, node: str, *, limit_bytes: int, is_one_way: bool = False) -> Fault:
    """Overlay packets of the node of more than so many bytes, outer header included, vanish; nobody is told."""
    return make(lab, "mtu-black-hole", node, {"bytes": limit_bytes, "one_way": float(is_one_way)})


def fragments_dropped(lab: Lab, node: str) -> Fault:
    """IP fragments from and to a node are lost; whole packets pass."""
    return make(lab, "fragments-dropped", node)


def _has_memory(lab: Lab, record: FaultRecord) -> bool:
    return PLANS[record.kind](lab.topology, record.node, record.parameters).has_memory
