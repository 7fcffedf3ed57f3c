import asyncio
import errno
from contextlib import closing

import pytest
from pyroute2.netlink.exceptions import NetlinkError

from meshwatchd.adapters.netlink import kernel
from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import Route, Rule


def test_reading_needs_no_privilege():
    """Everybody may dump; the loopback device is always there."""

    async def scenario():
        with closing(Kernel(117)) as here:
            links = await here.links()
            rules = await here.rules()
            return links, await here.find_link("lo"), await here.find_link("mw-none"), rules

    links, loopback, missing, rules = asyncio.run(scenario())

    assert loopback in links
    assert missing is None
    assert {255, 254, 253} <= {record.table for record in rules}


def test_two_who_read_at_once_both_get_everything():
    """What is withdrawn is read beside standing objects, over one socket."""

    async def scenario():
        with closing(Kernel(117)) as here:
            async with asyncio.timeout(5):
                reads = [each for _ in range(20) for each in (here.rules(), here.links())]
                return await asyncio.gather(*reads)

    found = asyncio.run(scenario())
    assert min(map(len, found[::2])) >= 3  # whoever else works on this host
    assert all("lo" in {link.name for link in links} for links in found[1::2])


def test_a_refusal_is_told_in_the_kernels_words():
    """Operation, number and text, whoever is the caller."""
    with pytest.raises(KernelError) as refusal:
        with kernel.asking("add rule"):
            raise NetlinkError(errno.EINVAL, "Invalid table")

    assert ("add rule", errno.EINVAL, "Invalid table") == (refusal.value.op, refusal.value.errno, refusal.value.text)


def test_a_refusal_without_words_gets_those_of_its_number():
    """Not every error has an extended acknowledgement; sockets have none."""
    for error in (NetlinkError(errno.EPERM), OSError(errno.EPERM, "whatever")):
        with pytest.raises(KernelError, match=r"sweep: Operation not permitted \(errno 1\)"):
            with kernel.asking("sweep"):
                raise error


def test_only_the_named_numbers_are_tolerated():
    """ENOENT on deletion means done; EPERM never does."""

    def refuse(number):
        with kernel.tolerating(errno.ENOENT), kernel.asking("delete rule"):
            raise NetlinkError(number)

    refuse(errno.ENOENT)
    with pytest.raises(KernelError):
        refuse(errno.EPERM)


def test_ports_imply_udp_and_are_written_as_ranges():
    """A dict as range fails deep inside the encoder."""
    request = kernel._rule_request(Rule(priority=5411, table=7701, dport=(18621, 18629)))

    assert (17, "18621:18629") == (request["FRA_IP_PROTO"], request["FRA_DPORT_RANGE"])
    assert "FRA_SPORT_RANGE" not in request


def test_a_jump_has_a_target_instead_of_a_table():
    """With both the kernel would take the table."""
    request = kernel._rule_request(Rule(priority=5410, goto=5480, sport=(18620, 18620)))

    assert ("goto", 5480) == (request["action"], request["goto"])
    assert "table" not in request


def test_a_gateway_is_onlink_and_a_device_route_has_link_scope():
    """Standby devices and overlay gateways share no prefix with any address of this node."""
    via = kernel._route_request(Route(dst="10.2.0.13/32", table=7799, dev="flannel.1", via="10.244.6.0"), 5)
    into = kernel._route_request(Route(dst="10.244.1.0/24", table=7701, dev="mw0", src="10.2.0.12"), 6)

    assert (["onlink"], 0, "10.244.6.0") == (via["flags"], via["scope"], via["gateway"])
    assert (253, "10.2.0.12") == (into["scope"], into["prefsrc"])
    assert "gateway" not in into
