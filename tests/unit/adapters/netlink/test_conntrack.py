"""Connections that the kernel tracks, and the flag that forgives gaps: read and set on a real kernel."""

from __future__ import annotations

import socket
import subprocess

import pytest

from meshwatchd.adapters.netlink import conntrack
from meshwatchd.adapters.netlink.message import attributes
from meshwatchd.model.errors import DecodeError
from tests.support.fake_rtnl import connection_body, packed_ip
from tests.support.netns import namespace

TRACK = "table inet t { chain c { type filter hook input priority 0; ct state established accept; }; }"


def test_a_connection_is_its_addresses_its_state_and_how_it_is_judged():
    """As the kernel lists one that it has seen from its first packet on."""
    found = conntrack.decode_connection(connection_body())

    assert found is not None
    assert (packed_ip("10.244.6.2"), packed_ip("10.244.3.2")) == (found.source, found.destination)
    assert (3, False) == (found.state, found.is_liberal)


def test_one_that_was_met_in_the_middle_is_judged_by_nothing():
    """The kernel has set the flag on both directions."""
    found = conntrack.decode_connection(connection_body(flags=0x0B))

    assert found is not None
    assert found.is_liberal


def test_what_is_no_tcp_is_no_connection():
    """UDP has no sequence numbers."""
    assert conntrack.decode_connection(connection_body(protocol=17)) is None


def test_what_is_cut_short_is_refused():
    """In the middle of an attribute."""
    with pytest.raises(DecodeError):
        conntrack.decode_connection(connection_body()[:-3])


def test_the_change_names_the_connection_and_keeps_its_state():
    """CTA_TUPLE_ORIG as it came, the state as it was, and one flag with its mask for each direction."""
    found = conntrack.decode_connection(connection_body(state=7))
    assert found is not None

    body = attributes(conntrack.encode_relaxation(found), 4)
    tcp = attributes(attributes(body[4], 0)[1], 0)

    assert found.identity == body[1]
    assert {1: b"\x07", 4: b"\x08\x08", 5: b"\x08\x08"} == tcp


@pytest.mark.lab
def test_the_kernel_takes_the_flag_once_for_each_connection():
    """A real connection over loopback; the second look finds nothing to change, and others are left alone."""
    with namespace() as space:
        subprocess.run(["ip", "netns", "exec", space.name, "nft", TRACK], check=True)
        listener = space.call(lambda: socket.create_server(("127.0.0.1", 0)))
        client = space.call(lambda: socket.create_connection(listener.getsockname()))
        with listener, client:
            served, _ = listener.accept()
            with served:
                here = ["127.0.0.0/8"]
                assert 0 == space.call(lambda: conntrack.relax(here, ["10.0.0.0/8"]))
                assert 1 == space.call(lambda: conntrack.relax(here, ["127.0.0.1/32"]))
                assert 0 == space.call(lambda: conntrack.relax(here, here))
                served.sendall(b"still alive")
                assert b"still alive" == client.recv(64)
