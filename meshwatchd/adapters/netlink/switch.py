"""The switch: change an override with a few prepared bytes and know at once whether the kernel took it.

The kernel works a rule change off inside sendto(), so the acknowledgement waits in the socket when sendto()
returns: nothing here waits for anybody but the kernel's own routing lock.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Final, NamedTuple

from meshwatchd.adapters.netlink import fibrule, message
from meshwatchd.adapters.netlink.fibrule import KernelRule
from meshwatchd.adapters.netlink.message import NLMSG_DONE, NLMSG_ERROR, Message, attributes, error_of, split
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Rule, Switch

_SOL_NETLINK: Final = 270
_NETLINK_CAP_ACK: Final = 10
_NETLINK_EXT_ACK: Final = 11
_NLM_F_ACK_TLVS: Final = 0x200
_NLMSGERR_ATTR_MSG: Final = 1
_ERROR: Final = struct.Struct("=i")
_CAPPED_ACK_BYTES: Final = message.HEADER.size + _ERROR.size + message.HEADER.size
"""Header, error number, header of the message it answers; NETLINK_CAP_ACK leaves out the rest of that."""

_RECEIVE_BYTES: Final = 64 * 1024
_MAX_UNREAD: Final = 1000
"""Messages that may wait in front of an answer; a socket's buffer holds no more."""

_DUMP_REQUEST: Final = struct.pack("=BBBBB2xBI", socket.AF_INET, 0, 0, 0, 0, 0, 0)


class _Step(NamedTuple):
    """One rule to add or to delete."""

    rule: Rule
    is_add: bool

    def render(self) -> str:
        return f"ip rule {'add' if self.is_add else 'del'} {self.rule.render()}"


class RuleSwitch:
    """One raw netlink socket that adds and deletes rules with our protocol number."""

    def __init__(self, protocol: int) -> None:
        self._protocol = protocol
        self._sequence = 0
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, socket.NETLINK_ROUTE)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_CAP_ACK, 1)
        self._socket.setsockopt(_SOL_NETLINK, _NETLINK_EXT_ACK, 1)
        self._socket.bind((0, 0))

    def close(self) -> None:
        """Close the socket; rules stay as they are."""
        self._socket.close()

    def apply(self, switch: Switch) -> None:
        """Add the new rules, then delete the old ones; either all of it is done or none.

        A rule that is already there, or already gone, is done.

        Raises:
            KernelError: the kernel refused a step; the steps before it have been undone, or the text says which
            could not be.
        """
        steps = [_Step(rule, is_add=True) for rule in switch.add]
        steps += [_Step(rule, is_add=False) for rule in switch.delete]
        done: list[_Step] = []
        for step in steps:
            try:
                if self._take(step):
                    done.append(step)
            except KernelError as error:
                remains = self._undo(done)
                if not remains:
                    raise
                text = f"{error.text}; left as they are: {'; '.join(remains)}"
                raise KernelError(error.op, error.errno, text) from error

    def dump(self) -> tuple[KernelRule, ...]:
        """All IPv4 rules that `Rule` can describe, whoever made them.

        Raises:
            KernelError: the dump failed.
        """
        flags = message.NLM_F_REQUEST | message.NLM_F_DUMP
        sequence = self._send(message.RTM_GETRULE, flags, _DUMP_REQUEST, op="dump rules")
        rules: list[KernelRule] = []
        while True:
            for answer in self._receive(sequence, op="dump rules"):
                if answer.kind in {NLMSG_DONE, NLMSG_ERROR}:
                    self._check(answer, op="dump rules")
                    return tuple(rules)
                found = fibrule.decode_rule(answer.body) if answer.kind == message.RTM_NEWRULE else None
                if found is not None:
                    rules.append(found)

    def _take(self, step: _Step) -> bool:
        """Carry out one step; False when there was nothing to do."""
        try:
            self._request(step)
        except KernelError as error:
            if step.is_add and error.errno == errno.EEXIST and self._is_ours(step.rule):
                return False
            if not step.is_add and error.errno in {errno.ENOENT, errno.ESRCH}:
                return False
            raise
        return True

    def _is_ours(self, rule: Rule) -> bool:
        # EEXIST is the kernel's idea of equality; ours includes whose rule it is.
        return KernelRule(rule, self._protocol) in self.dump()

    def _undo(self, done: list[_Step]) -> list[str]:
        remains = []
        for step in reversed(done):
            try:
                self._take(_Step(step.rule, is_add=not step.is_add))
            except KernelError:
                remains.append(step.render())
        return remains

    def _request(self, step: _Step) -> None:
        flags = message.NLM_F_REQUEST | message.NLM_F_ACK
        if step.is_add:
            flags |= message.NLM_F_CREATE | message.NLM_F_EXCL
        type_ = message.RTM_NEWRULE if step.is_add else message.RTM_DELRULE
        body = fibrule.encode_rule(step.rule, self._protocol)
        sequence = self._send(type_, flags, body, op=step)
        try:
            answers = self._receive(sequence, op=step)
        except KernelError:
            # ENOBUFS: the acknowledgement is lost, and the step is done all the same, unless it was refused.
            if self._is_done(step):
                return
            raise
        for answer in answers:
            self._check(answer, op=step)

    def _is_done(self, step: _Step) -> bool:
        """Whether the kernel's rules are as after a step; False as well where they cannot be read."""
        for _ in range(_MAX_UNREAD):
            try:
                self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                break
            except OSError:
                continue  # told once for all that was lost
        try:
            return self._is_ours(step.rule) is step.is_add
        except KernelError:
            return False

    def _send(self, type_: int, flags: int, body: bytes, *, op: str | _Step) -> int:
        self._sequence = (self._sequence + 1) & 0xFFFF_FFFF
        try:
            self._socket.send(message.encode(type_, flags, self._sequence, body))
        except OSError as error:
            raise _failure(op, error.errno or errno.EIO) from error
        return self._sequence

    def _receive(self, sequence: int, *, op: str | _Step) -> list[Message]:
        """The messages of the next datagram that answers `sequence`; older answers are dropped."""
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except OSError as error:
                raise _failure(op, error.errno or errno.EIO) from error
            answers = [each for each in split(data) if each.sequence == sequence]
            if answers:
                return answers

    @staticmethod
    def _check(answer: Message, *, op: str | _Step) -> None:
        if answer.kind in {NLMSG_ERROR, NLMSG_DONE} and (code := error_of(answer.body)):
            raise _failure(op, -code, _explanation(answer))


def _explanation(answer: Message) -> str | None:
    """The kernel's own words (NLMSGERR_ATTR_MSG of the extended acknowledgement), if it gave any."""
    if not answer.flags & _NLM_F_ACK_TLVS:
        return None
    start = _CAPPED_ACK_BYTES - message.HEADER.size if answer.kind == NLMSG_ERROR else _ERROR.size
    text = attributes(answer.body, start).get(_NLMSGERR_ATTR_MSG)
    return text.rstrip(b"\0").decode(errors="replace") if text is not None else None


def _failure(op: str | _Step, number: int, text: str | None = None) -> KernelError:
    words = op if isinstance(op, str) else op.render()
    return KernelError(words, number, text or os.strerror(number))
