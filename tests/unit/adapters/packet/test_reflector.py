"""The reflector answers nodes of the mesh and nobody else."""

from __future__ import annotations

import errno
import socket
from ipaddress import ip_address

import pytest

from meshwatchd.adapters.packet import listeners
from meshwatchd.adapters.packet.peers import Budgets
from meshwatchd.adapters.packet.reflector import BATCH
from meshwatchd.adapters.packet.sockets import open_listener
from meshwatchd.model.events import Banner, OtherKeySeen, ReplyReceived, RequestReceived
from meshwatchd.model.ids import FlowClass, Layer, NodeName
from meshwatchd.wire.auth import KeyRole, MeshKeys, MeshSecret, node_id
from meshwatchd.wire.parse import ParsedProbe, verify_and_parse
from meshwatchd.wire.stamp import AUTH_BASE_BYTES
from meshwatchd.wire.standard_tlv import DirectMeasurement, Location, LocationType, class_of_service
from meshwatchd.wire.tlv import TlvType, decode_tlvs
from tests.support.packet_node import BUDGETS, SECRET, PacketNode, free_port, key, nodes, plan, request, send, udp
from tests.support.pump import pump

EF = 46
"""Expedited Forwarding, a DSCP (RFC 3246)."""


def _listening(node: PacketNode) -> tuple[str, int]:
    port = free_port()
    node.reflector.listeners.listen((port,))
    return "127.0.0.1", port


def test_answer_is_as_long_as_the_request_and_verifies():
    """The answer repeats number and timestamp, counts on its own, and is not longer."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        sent = request(sequence=41)
        plain.sendto(sent, address)
        pump(poller, lambda: bool(node.events))

        reply = plain.recv(2048)
        parsed = verify_and_parse(reply, key("a1", "b1"))
        assert isinstance(parsed, ParsedProbe)
        assert len(sent) == len(reply)
        assert (True, 41, 10_041, 0) == (
            parsed.is_reply,
            parsed.sender_sequence,
            parsed.sender_timestamp_ntp,
            parsed.sequence,
        )
        assert not parsed.is_destination_refused
        assert 64 == parsed.sender_ttl


def test_answer_comes_from_the_address_the_request_was_sent_to():
    """On a node of many addresses the peer's connected socket hears only the one it asked."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        _host, port = _listening(node)
        plain.sendto(request(), ("127.0.0.9", port))
        pump(poller, lambda: bool(node.events))

        assert ("127.0.0.9", port) == plain.recvfrom(2048)[1]


def test_unproven_epoch_is_answered_and_marked():
    """A peer we have not heard from gets its answer, or two nodes would never meet; nothing it says may count."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        plain.sendto(request(sequence=1), address)
        pump(poller, lambda: bool(node.events))
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        plain.sendto(request(sequence=2), address)
        pump(poller, lambda: len(node.events) > 1)

        events = [event for event in node.events if isinstance(event, RequestReceived)]
        assert [False, True] == [event.is_fresh_epoch for event in events]
        assert (NodeName("a1"), Layer.RELAY, 1, FlowClass.PINNED) == (
            events[0].peer,
            events[0].layer,
            events[0].path,
            events[0].flow,
        )


def test_replayed_request_gets_no_answer():
    """Under a proven epoch each number counts once."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        for _ in range(2):
            plain.sendto(request(sequence=5), address)
        plain.sendto(request(sequence=6, epoch=6), address)
        pump(poller, lambda: node.counters["requests-replayed"] == 2)

        assert 1 == len(node.events)
        assert 1 == node.counters["answers-sent"]


def test_what_is_sent_again_in_the_name_of_an_unproven_peer_uses_up_none_of_its_answers():
    """Two at once. Who does not ask the peer proves no epoch of it, and whoever has heard one request repeats it."""
    with nodes("b1", budgets=Budgets(peer_per_s=8, all_per_s=100)) as (poller, [node]), udp() as plain:
        address = _listening(node)
        for sequence in (1, 1, 1, 1, 1, 2):
            plain.sendto(request(sequence=sequence), address)
        pump(poller, lambda: sum(node.counters.values()) == 6)

        assert {"answers-sent": 2, "requests-replayed": 4} == node.counters


def test_strangers_forgeries_and_answers_get_no_answer():
    """Each is counted under its reason; none reaches the core."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        forged = bytearray(request())
        forged[-1] ^= 1
        plain.sendto(request(signer="x9"), address)
        plain.sendto(request(receiver="b2"), address)
        plain.sendto(forged, address)
        pump(poller, lambda: sum(node.counters.values()) == 3)

        assert {"requests-unknown-peer": 1, "requests-bad-base-tag": 1, "requests-bad-tlv-tag": 1} == node.counters
        assert [] == node.events


def test_answer_is_never_answered():
    """Two reflectors must not play ball."""
    with nodes("a1", "b1") as (poller, [other, node]), udp() as plain:
        plain.sendto(request(), _listening(node))
        pump(poller, lambda: bool(node.events))
        reply = plain.recv(2048)
        plain.sendto(reply, _listening(other))
        pump(poller, lambda: bool(other.counters))

        assert {"requests-not-a-request": 1} == other.counters


def test_answers_to_one_peer_are_limited():
    """A peer gets its rate and a quarter of a second's burst; the rest is counted."""
    burst = BUDGETS.peer_per_s // 4
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        for sequence in range(burst + 300):
            plain.sendto(request(sequence=sequence), address)
            if sequence % 100 == 0:
                pump(poller, lambda: sum(node.counters.values()) > sequence)  # noqa: B023 - used at once
        pump(poller, lambda: node.counters["answers-sent"] + node.counters["requests-rate-limited"] == burst + 300)

        assert burst <= node.counters["answers-sent"]
        assert node.counters["answers-sent"] == len(node.events)


def test_flood_of_one_peer_starves_no_other():
    """a1 sends eighty times its burst of valid requests; every request of b2, within its own burst, is answered."""
    flood, asked = 2_000, 25
    budgets = Budgets(peer_per_s=4 * asked, all_per_s=8 * asked)
    with nodes("b1", budgets=budgets) as (poller, [node]), udp() as loud, udp() as quiet:
        address = _listening(node)
        for sequence in range(flood):
            loud.sendto(request(sequence=sequence), address)
            if sequence % (flood // asked) == 0:
                quiet.sendto(request("b2", sequence=sequence), address)
                pump(poller, lambda: sum(node.counters.values()) > sequence)  # noqa: B023 - used at once
        pump(poller, lambda: sum(node.counters.values()) >= flood + asked)

        assert node.counters["requests-rate-limited"] > 0
        assert asked == sum(event.peer == "b2" for event in node.events if isinstance(event, RequestReceived))


def test_peer_under_an_unknown_key_is_named_once_a_second_and_not_answered():
    """A missed step of a rotation: b2's requests are signed with another secret."""
    stale = MeshKeys("b2", [MeshSecret(secret=bytes(32))]).add_peer("b1")
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        for sequence in range(5):
            plain.sendto(request("b2", sequence=sequence, signed=stale), address)
        pump(poller, lambda: node.counters["requests-unknown-key"] == 5)

        assert [OtherKeySeen(peer=NodeName("b2"), key_id=stale.key_id)] == node.events
        assert 0 == node.counters["answers-sent"]


def test_peer_at_another_step_of_a_rotation_is_answered_and_named():
    """b2 signs with a key that is accepted here, and not what this node signs with."""
    new = MeshSecret(secret=bytes(32))
    with nodes("b1") as (poller, [node]), udp() as plain:
        node.peers.use([new, MeshSecret(secret=SECRET.secret, role=KeyRole.RECEIVE_ONLY)])
        plain.sendto(request("b2"), _listening(node))
        pump(poller, lambda: len(node.events) == 2)

        told = next(event for event in node.events if isinstance(event, OtherKeySeen))
        assert OtherKeySeen(peer=NodeName("b2"), key_id=key("b2", "b1").key_id, is_known=True) == told
        assert 1 == node.counters["answers-sent"]


def test_garbage_is_dropped_before_it_wakes_us():
    """Short packets and long nonsense die in the socket filter; the kernel counts them."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        good = request()
        for garbage in (b"", b"x" * 100, b"x" * len(good), good[:-80]):
            plain.sendto(garbage, address)
        plain.sendto(good, address)
        pump(poller, lambda: bool(node.events))

        assert 4 == node.reflector.listeners.filtered()
        assert {"answers-sent": 1} == node.counters


def test_layer_of_a_later_version_is_answered_and_not_told():
    """A newer peer may probe layers we do not know: it gets its answer."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        plain.sendto(request(layer=99), _listening(node))
        pump(poller, lambda: bool(node.counters["requests-unknown-layer"]))

        assert plain.recv(2048)
        assert [] == node.events


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_request_that_asks_is_told_how_it_came(address):
    """DSCP and ECN of arrival, both addresses and ports, and the session's counts (RFC 8972 sections 4.2, 4.4, 4.5)."""
    questions = (
        class_of_service(EF),
        Location.request().to_tlv(),
        DirectMeasurement(sender_tx=9).to_tlv(),
    )
    with nodes("b1") as (poller, [node]), udp(address) as plain:
        _host, port = _listening(node)
        level, option = (
            (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if ":" in address else (socket.IPPROTO_IP, socket.IP_TOS)
        )
        plain.setsockopt(level, option, EF << 2 | 1)
        for sequence in (1, 2):
            plain.sendto(request(sequence=sequence, address=address, extra_tlvs=questions), (address, port))
            pump(poller, lambda: len(node.events) == sequence)  # noqa: B023 - used at once
            reply = plain.recv(2048)

    found = {tlv.type: tlv for tlv in decode_tlvs(reply, AUTH_BASE_BYTES)}
    here = ip_address(address)
    location = Location.from_tlv(found[TlvType.LOCATION])
    assert EF << 26 | EF << 20 | 1 << 18 == int.from_bytes(found[TlvType.CLASS_OF_SERVICE].value, "big")
    assert (port, here) == (
        location.destination_port,
        location.address(LocationType.DESTINATION_IPV4, LocationType.DESTINATION_IPV6),
    )
    assert here == location.address(LocationType.SOURCE_IPV4, LocationType.SOURCE_IPV6)
    measured = DirectMeasurement.from_tlv(found[TlvType.DIRECT_MEASUREMENT])
    assert DirectMeasurement(sender_tx=9, reflector_rx=2, reflector_tx=2) == measured


def test_requests_over_ipv6_are_answered():
    """On the same port as those over IPv4, from the address that was asked."""
    with nodes("b1") as (poller, [node]), udp("::1") as plain:
        _host, port = _listening(node)
        plain.sendto(request(address="::1"), ("::1", port))
        pump(poller, lambda: bool(node.events))
        reply, sender = plain.recvfrom(2048)

    parsed = verify_and_parse(reply, key("a1", "b1"))
    assert isinstance(parsed, ParsedProbe)
    assert ("::1", port) == sender[:2]
    assert (64, False) == (parsed.sender_ttl, parsed.is_destination_refused)


def test_batch_of_requests_is_answered_in_full():
    """More than one call takes, of them some that get no answer; each answer has its own number."""
    count = 2 * BATCH + 3
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        for sequence in range(count):
            plain.sendto(request(sequence=sequence), address)
            if sequence % 5 == 0:
                plain.sendto(request(signer="x9"), address)
        pump(poller, lambda: len(node.events) == count)
        replies = [verify_and_parse(plain.recv(2048), key("a1", "b1")) for _ in range(count)]

    parsed = [reply for reply in replies if isinstance(reply, ParsedProbe)]
    assert list(range(count)) == [reply.sender_sequence for reply in parsed]
    assert list(range(count)) == [reply.sequence for reply in parsed]
    assert count == node.counters["answers-sent"]


def test_request_that_says_nothing_new_is_told_by_the_same_words():
    """A thousand requests a second say the same; what changes is told as it is."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        for sequence, layer in ((1, 5), (2, 5), (3, 4)):
            plain.sendto(request(sequence=sequence, layer=layer), address)
        pump(poller, lambda: len(node.events) == 3)
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        plain.sendto(request(sequence=4, layer=4), address)
        pump(poller, lambda: len(node.events) == 4)

        first, second, third, fourth = (event for event in node.events if isinstance(event, RequestReceived))
        assert first is second
        assert [Layer.RELAY, Layer.OVERLAY] == [first.layer, third.layer]
        assert [False, True] == [third.is_fresh_epoch, fourth.is_fresh_epoch]


def test_kernel_without_ipv6_listens_to_ipv4(monkeypatch):
    """Nothing is counted as failed, and requests are answered."""

    def without_ipv6(port: int, family: socket.AddressFamily) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(errno.EAFNOSUPPORT, "no such family")
        return open_listener(port, family)

    monkeypatch.setattr(listeners, "open_listener", without_ipv6)
    with nodes("b1") as (poller, [node]), udp() as plain:
        plain.sendto(request(), _listening(node))
        pump(poller, lambda: bool(node.events))

        assert 0 == node.counters["listen-failed"]


def test_a_node_answers_itself():
    """Prober, kernel, reflector and back: the session that proves this process able to judge."""
    with nodes("a1") as (poller, [node]):
        _host, port = _listening(node)
        node.prober.configure((plan(port, peer="a1"),))
        node.prober.send(send(seq=3))
        node.prober.flush()
        pump(poller, lambda: len(node.events) == 2)

        [heard] = [event for event in node.events if isinstance(event, RequestReceived)]
        [reply] = [event for event in node.events if isinstance(event, ReplyReceived)]
        assert ("a1", 3) == (heard.peer, reply.seq)


def test_what_others_signed_does_not_pass_as_our_own():
    """A captured packet of b1, its node id replaced by ours; and our own request, once more."""
    captured = bytearray(request("b1", "a1"))
    theirs, ours = (node_id(name).to_bytes(8, "big") for name in ("b1", "a1"))
    assert 1 == captured.count(theirs)
    with nodes("a1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        plain.sendto(captured.replace(theirs, ours), address)
        pump(poller, lambda: bool(node.counters["requests-bad-base-tag"]))
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        for _ in range(2):
            plain.sendto(request("a1", "a1"), address)
        pump(poller, lambda: bool(node.counters["requests-replayed"]))

        assert 1 == len(node.events)


def test_repeated_request_is_guarded_like_the_first():
    """What is familiar is answered by a shorter way, which has the same guards: tags, window, dropped secrets."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        for sequence in (1, 2, 2):
            plain.sendto(request(sequence=sequence), address)
        forged = bytearray(request(sequence=3))
        forged[3] ^= 8
        plain.sendto(forged, address)
        pump(poller, lambda: node.counters["requests-bad-base-tag"] == 1)
        assert (2, 1) == (node.counters["answers-sent"], node.counters["requests-replayed"])

        node.peers.use([MeshSecret(secret=bytes(32))])
        plain.sendto(request(sequence=4), address)
        pump(poller, lambda: node.counters["requests-unknown-key"] == 1)
        assert 2 == node.counters["answers-sent"]


def test_what_a_node_says_of_itself_is_said_to_familiar_requests_too():
    """A new banner, and proof of the epoch, reach whoever has asked before."""
    with nodes("b1") as (poller, [node]), udp() as plain:
        address = _listening(node)
        plain.sendto(request(sequence=1), address)
        pump(poller, lambda: len(node.events) == 1)
        node.peers.peer(NodeName("a1")).guard.confirm(7)
        node.reflector.announce(node.own(Banner(view_up=5, view_known=7)))
        for sequence in (2, 3):
            plain.sendto(request(sequence=sequence), address)
        pump(poller, lambda: len(node.events) == 3)

        parsed = [verify_and_parse(plain.recv(2048), key("a1", "b1")) for _ in range(3)]
        answers = [each.mesh for each in parsed if isinstance(each, ParsedProbe)]
        assert [(0, 0), (5, 7), (5, 7)] == [(mesh.heard, mesh.known) for mesh in answers]
        events = [event for event in node.events if isinstance(event, RequestReceived)]
        assert [False, True, True] == [event.is_fresh_epoch for event in events]
