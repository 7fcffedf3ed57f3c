"""Questions to a server that answers each row of the table, or nothing."""

from __future__ import annotations

import asyncio
import socket

import pytest

from meshwatchd.adapters.service.dns import look_up, render_server
from meshwatchd.model.service_check import DnsResult
from tests.support.service_stage import SILENCE, dns_server

ZONES = {
    "here": "10.110.3.4 10.110.3.5 fd00::7",
    "gone": "NXDOMAIN",
    "foreign": "NXDOMAIN/local",
    "rooted": "NXDOMAIN/.",
    "empty": "EMPTY",
    "unread": "SERVFAIL",
    "odd": "FORMERR",
    "deaf": SILENCE,
}


@pytest.fixture(scope="module")
def server():
    """A server for all tests of this file."""
    with dns_server(ZONES) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("here", (DnsResult.ADDRESSES, "", "NOERROR")),
        ("gone", (DnsResult.NXDOMAIN, "", "NXDOMAIN")),
        ("foreign", (DnsResult.NXDOMAIN, "local", "NXDOMAIN")),
        ("rooted", (DnsResult.NXDOMAIN, ".", "NXDOMAIN")),
        ("empty", (DnsResult.EMPTY, "", "NOERROR")),
        ("unread", (DnsResult.SERVFAIL, "", "SERVFAIL")),
        ("strange", (DnsResult.REFUSED, "", "REFUSED")),
        ("odd", (DnsResult.OTHER, "", "FORMERR")),
        ("deaf", (DnsResult.SILENT, "", "")),
    ],
)
def test_each_answer_is_told_apart(server, name, expected):
    """With who denies a name."""
    found = asyncio.run(look_up(server, f"shop.{name}"))
    assert expected == (found.result, found.zone, found.detail)
    assert (f"shop.{name}", render_server(server)) == (found.name, found.server)


def test_addresses_are_of_the_family_that_was_asked_for(server):
    """In the order of numbers."""
    assert ("10.110.3.4", "10.110.3.5") == asyncio.run(look_up(server, "shop.here")).addresses
    assert ("fd00::7",) == asyncio.run(look_up(server, "shop.here", "AAAA")).addresses


def test_a_server_that_cannot_be_reached_is_silent_with_a_reason():
    """Port 0 is nobody's."""
    found = asyncio.run(look_up(("127.0.0.1", 0), "shop.here"))
    assert DnsResult.SILENT is found.result
    assert found.detail


def test_a_datagram_that_is_lost_is_asked_for_again(server):
    """From another port: a socket for each try."""
    askers = set()

    def lose_first(asker):
        askers.add(asker)
        return len(askers) > 1

    with dns_server(ZONES, lose_first) as lossy:
        assert DnsResult.ADDRESSES is asyncio.run(look_up(lossy, "shop.here")).result
    assert 2 == len(askers)


def test_a_datagram_from_elsewhere_is_waited_past(server):
    """It answers nothing, whoever sends it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:

        def disturb(asker):
            stranger.sendto(b"hello", asker)
            return True

        with dns_server(ZONES, disturb) as disturbed:
            assert DnsResult.ADDRESSES is asyncio.run(look_up(disturbed, "shop.here")).result


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (("10.96.0.10", 53), "10.96.0.10"),
        (("10.96.0.10", 5353), "10.96.0.10:5353"),
        (("fd00::a", 5353), "[fd00::a]:5353"),
    ],
)
def test_a_server_is_written_as_people_do(server, expected):
    """Port 53 goes without saying."""
    assert expected == render_server(server)
