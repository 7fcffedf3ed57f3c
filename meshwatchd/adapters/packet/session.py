"""One session as the prober has it: whom it asks, and the packets it asks with."""

from __future__ import annotations

import socket
from typing import Final

import msgspec

from meshwatchd.adapters.packet import translate
from meshwatchd.adapters.packet.address import pack_address, pack_name
from meshwatchd.adapters.packet.delivery import Ancillary, leave_by
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.events import Banner, Coordination
from meshwatchd.model.ids import FlowClass
from meshwatchd.model.outputs import SendProbe, SessionPlan
from meshwatchd.wire.auth import PairKey
from meshwatchd.wire.mesh_tlv import FLAG_CONFIRM_BURST, OwnState
from meshwatchd.wire.replay import ReplayGuard
from meshwatchd.wire.template import ProbeSpec, ProbeTemplate

_NO_DEVICE: Final = -1
"""An index that no interface has: sending by it fails with ENODEV."""


MOST_BRIEF: Final = 16
"""So many probes in vain may be brief, more than a burst has on the way: then the peer's daemon may have become one
of an older version, which reads long ones only."""


class FamiliarAnswer(msgspec.Struct, frozen=True, gc=False):
    """What the last answer said beside its base packet; the next one most likely says it again.

    Attributes:
        key: under which it was verified.
        head, tail: its third and fifth piece (see `wire.Pieces`).
        epoch, banner: of the peer.
        guard: the peer's.
        is_destination_refused: as in `wire.ParsedProbe`.
    """

    key: PairKey | None
    head: bytes
    tail: bytes
    epoch: int
    banner: Banner
    guard: ReplayGuard
    is_destination_refused: bool


class ProbeSession:
    """A plan with its packets.

    Attributes:
        ssid: the session identifier on the wire, 1..65535.
        key: what its probes are signed with.
        address, name: to whom they go, as a socket takes it and as a sockaddr.
        control: ancillary data of its probes: by which device they leave.
        is_kept: its flows are known ones, whose source ports stay open.
        rotations: `Peers.rotations` when the key was looked up last.
        familiar: the last answer.
        reads_brief: the peer's latest answer says that it reads mesh TLVs of 54 bytes.
        unanswered: probes since that answer.
    """

    __slots__ = (
        "_coordinated",
        "_flags",
        "_is_confirm",
        "_own",
        "_template",
        "address",
        "control",
        "familiar",
        "is_kept",
        "key",
        "name",
        "plan",
        "reads_brief",
        "rotations",
        "ssid",
        "unanswered",
    )

    def __init__(self, plan: SessionPlan, *, key: PairKey, own: OwnState) -> None:
        """Raises DecodeError when the plan's addresses are none, or not of one family."""
        self.plan = plan
        self.ssid = plan.session + 1
        self.key = key
        self.rotations = -1
        self.familiar: FamiliarAnswer | None = None
        self.address = (plan.destination, plan.port)
        self.name = pack_name(plan.destination, plan.port)
        self.is_kept = plan.flow is FlowClass.PINNED
        self.reads_brief = False
        self.unanswered = 0
        self.control: Ancillary = ()
        self.find_device()
        self._own = own
        if len(pack_address(plan.source)) != len(pack_address(plan.destination)):
            raise DecodeError("address", f"{plan.source} and {plan.destination} are not of one family")
        self._flags = translate.session_flags(plan.layer, plan.flow)
        self._is_confirm = False
        self._template = ProbeTemplate(self._spec(), key=key, own=own)
        self._coordinated: tuple[Coordination, ProbeTemplate] | None = None

    def find_device(self) -> bool:
        """Look up the device by which the probes leave; whether it is another than before, as when it is made anew.

        Without the device every probe fails, which is the truth: going another way would hide it.
        """
        if not self.plan.device:
            return False
        try:
            index = socket.if_nametoindex(self.plan.device)
        except OSError:
            index = _NO_DEVICE
        known, self.control = self.control, leave_by(index, pack_address(self.plan.source))
        return known != self.control

    def use_key(self, key: PairKey) -> None:
        """Sign with this from here on; answers to what was signed before still come under the key of then."""
        if self.key is not key:
            self.key, self._coordinated = key, None
            self._template.rekey(key)

    def template(self, command: SendProbe, own: OwnState, dictionary: translate.Dictionary) -> ProbeTemplate:
        """The packet for a probe, ready to be sealed."""
        if self._own is not own:
            self._own = own
            self._template.announce(own)
            self._coordinated = None
        self.unanswered += 1
        is_brief = self.reads_brief and self.unanswered <= MOST_BRIEF
        if self._template.is_brief is not is_brief:
            self._template.be_brief(is_brief)
        if command.coordination is not None:
            return self._with_room(command.coordination, dictionary)
        if self._is_confirm is not command.is_confirm:
            self._is_confirm = command.is_confirm
            self._template.set_flags(self._flags | (FLAG_CONFIRM_BURST if command.is_confirm else 0))
        return self._template

    def _with_room(self, message: Coordination, dictionary: translate.Dictionary) -> ProbeTemplate:
        """A template with room for the message; it is repeated on many probes, so the last one is kept."""
        kept = self._coordinated
        if kept is not None and kept[0] == message:
            return kept[1]
        spec = self._spec(message, dictionary)
        template = ProbeTemplate(spec, key=self.key, own=self._own)
        self._coordinated = (message, template)
        return template

    def _spec(
        self, coordination: Coordination | None = None, dictionary: translate.Dictionary | None = None
    ) -> ProbeSpec:
        encoded = None
        if coordination is not None and dictionary is not None:
            encoded = dictionary.encode(coordination)
        return ProbeSpec(
            ssid=self.ssid,
            path=self.plan.path,
            layer=self.plan.layer,
            flags=self._flags,
            destination=pack_address(self.plan.destination),
            coordination=encoded,
        )
