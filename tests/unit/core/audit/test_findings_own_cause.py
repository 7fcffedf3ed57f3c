"""What a node finds at itself is the cause of what its own probes say of its tunnel."""

from __future__ import annotations

import pytest

from meshwatchd.core.audit.findings import FindingBook
from meshwatchd.model.audit import AuditFinding
from meshwatchd.model.faults import CATALOGUE, FaultCode, Verdict
from meshwatchd.model.settings import SECOND
from tests.support.lab_mesh import settings_for

NOW = 50 * SECOND


def _verdict(fault, culprit):
    entry = CATALOGUE[fault]
    return Verdict(fault=fault, layer=entry.layer, severity=entry.severity, pair=0, culprit=culprit)


def _book(node, *findings):
    book = FindingBook(settings_for(node), node)
    list(book.report(findings, NOW))
    return book


@pytest.mark.parametrize(
    ("code", "place", "is_cause"),
    [
        # Its own device has another key: what it sends is not understood, and a1 goes on sending.
        (FaultCode.WIREGUARD_KEY_MISMATCH, ("kilo0", "kilo0", "", "b1"), True),
        (FaultCode.WIREGUARD_KEY_MISMATCH, ("kilo0", "KEY", "a1", "a1"), True),
        (FaultCode.WIREGUARD_PEER_MISSING, ("kilo0", "KEY", "a1", "b1"), True),
        (FaultCode.NODE_ROUTE_BLOCKED, ("eth0", "203.0.113.11/32", "a1", "b1"), True),
        # Of another peer.
        (FaultCode.WIREGUARD_KEY_MISMATCH, ("kilo0", "KEY", "c1", "c1"), False),
        (FaultCode.NODE_ROUTE_BLOCKED, ("eth0", "203.0.113.31/32", "c1", "b1"), False),
        # The same silence, seen from the counters.
        (FaultCode.WIREGUARD_NO_DATA, ("kilo0", "KEY", "a1", "a1"), False),
        (FaultCode.WIREGUARD_NO_HANDSHAKE, ("kilo0", "KEY", "a1", "a1"), False),
        # Above the tunnel, and no part of it.
        (FaultCode.OVERLAY_DEVICE_MISSING, ("flannel.1", "flannel.1", "", "b1"), False),
        (FaultCode.FORWARDING_OFF, ("", "ip_forward", "", "b1"), False),
    ],
)
def test_what_is_wrong_with_the_tunnel_is_why_it_passes_one_direction_only(code, place, is_cause):
    """A node does not accuse the other end of what it has found at itself."""
    device, subject, peer, culprit = place
    finding = AuditFinding(code=code, device=device, subject=subject, peer=peer, culprit=culprit)
    named = _book("b1", finding).explain(_verdict(FaultCode.ONE_WAY_BREAK, "a1"), ("a1", "b1"))

    assert ((code, culprit) if is_cause else (FaultCode.ONE_WAY_BREAK, "a1")) == (named.fault, named.culprit)
