import asyncio
import errno
import socket
import struct

import pytest

from meshwatchd.adapters.netlink import dumper, message
from meshwatchd.adapters.netlink.dumper import MAX_ATTEMPTS, Dumper
from meshwatchd.adapters.netlink.message import HEADER, encode
from meshwatchd.adapters.netlink.objects import LINK, pack_link
from meshwatchd.model.errors import DecodeError, KernelError


class FakeSocket:
    """Answers the n-th request with the n-th script: (type, flags, body) for each message, None for a pause."""

    def __init__(self, *scripts):
        self.scripts, self.pending, self.closed = list(scripts), [], False

    def send(self, request):
        """Take a request."""
        self.sent = request
        _, kind, flags, sequence, _ = HEADER.unpack_from(request)
        assert (message.RTM_GETLINK, 0x301) == (kind, flags)
        script = self.scripts.pop(0)
        if isinstance(script, OSError):
            raise script
        for part in script:
            self.pending.append(None if part is None else encode(part[0], part[1], sequence, part[2]))

    def recv(self, size):
        """The next part."""
        datagram = self.pending.pop(0)
        if datagram is None:
            raise BlockingIOError
        return datagram

    def close(self):
        """End."""
        self.closed = True


DONE = (message.NLMSG_DONE, 2, struct.pack("=i", 0))


def error(number):
    """A refusal."""
    return (message.NLMSG_ERROR, 0, struct.pack("=i", -number) + bytes(16))


def link(name, flags=2):
    """One message of a dump."""
    return (message.RTM_NEWLINK, flags, name)


def ask(*scripts):
    """What a dump brings; bodies are their own keys, and empty ones are left out."""

    def pack(body):
        return (body, ()) if body else None

    async def run():
        asked = Dumper(lambda: FakeSocket(*scripts))
        found = await asked.dump(message.RTM_GETLINK, b"", "devices", pack)
        asked.close()
        return [key for key, _ in found]

    return asyncio.run(run())


def test_all_parts_are_put_together():
    """A part may be late, and a body none of ours."""
    assert [b"lo..", b"eth0"] == ask([link(b"lo.."), None, link(b""), link(b"eth0"), DONE])


def test_an_interrupted_dump_is_asked_for_again():
    """What a torn one showed is void: it is not one picture."""
    torn = [link(b"lo..", 2 | message.NLM_F_DUMP_INTR), DONE]

    assert [b"eth0"] == ask(torn, torn, [link(b"eth0"), DONE])


def test_a_busy_kernel_is_asked_again():
    """EBUSY: it still works at another dump of this socket."""
    assert [b"eth0"] == ask(OSError(errno.EBUSY, "busy"), [error(errno.EBUSY)], [link(b"eth0"), DONE])


def test_a_dump_is_not_asked_for_for_ever(monkeypatch):
    """Then somebody may read about it."""
    monkeypatch.setattr(dumper, "RETRY_S", 0)
    torn = [link(b"lo..", message.NLM_F_DUMP_INTR), DONE]

    with pytest.raises(KernelError, match="list devices: interrupted by changes 20 times"):
        ask(*[torn] * MAX_ATTEMPTS)


def test_a_kernel_without_the_family_has_nothing_of_it():
    """IPv6 may be absent."""
    assert [] == ask([error(errno.EOPNOTSUPP)])
    assert [] == ask([error(errno.EAFNOSUPPORT)])


def test_a_refusal_is_told():
    """By the operation's name."""
    with pytest.raises(KernelError, match=r"list devices: Operation not permitted \(errno 1\)"):
        ask([error(errno.EPERM)])


def test_a_malformed_answer_is_refused():
    """An acknowledgement without its number."""
    with pytest.raises(DecodeError):
        ask([(message.NLMSG_DONE, 0, b"")])


def test_the_rest_of_a_dump_that_was_given_up_is_passed_over():
    """It has another sequence number."""

    class Leftover(FakeSocket):
        def send(self, request):
            super().send(request)
            self.pending.insert(0, encode(message.RTM_NEWLINK, 2, 999, b"old."))

    async def run():
        asked = Dumper(lambda: Leftover([link(b"eth0"), DONE]))
        return await asked.dump(message.RTM_GETLINK, b"", "devices", lambda body: (body, ()))

    assert [(b"eth0", ())] == asyncio.run(run())


def test_the_real_kernel_answers():
    """Everybody may dump; the loopback device is always there."""

    async def run():
        asked = Dumper()
        found = await asked.dump(message.RTM_GETLINK, LINK.pack(socket.AF_UNSPEC, 0, 0, 0), "devices", pack_link)
        asked.close()
        return found

    assert any(values[0].endswith(b"\0lo\0") for _, values in asyncio.run(run()))
