"""A host that loses packets without a trace is named; one that is merely busy is not."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.host import HostAudit
from meshwatchd.model.faults import FaultCode
from meshwatchd.model.host import HostState
from meshwatchd.model.settings import SECOND

FINE = HostState(
    at_ns=100 * SECOND,
    is_forwarding=True,
    rp_filter={"kilo0": 2, "flannel.1": 0},
    conntrack_count=900,
    conntrack_max=1000,
    conntrack_drops=7,
    conntrack_invalid=5000,
    udp_checksum_errors=3,
)
DEVICES = tuple(FINE.rp_filter)


def _look(*states, has_cni=True):
    audit = HostAudit("b1")
    for state in states:
        audit.observe(state)
    return [(each.code, each.device, each.subject, each.culprit) for each in audit.look(has_cni=has_cni)]


def _later(seconds, **changes):
    return msgspec.structs.replace(FINE, at_ns=FINE.at_ns + seconds * SECOND, **changes)


def test_a_host_that_is_fine_is_fine():
    """Old counts say nothing, and nothing is known before the first look."""
    assert [] == _look() == _look(FINE) == _look(FINE, _later(5), _later(10), _later(300))
    assert [] == _look(HostState(at_ns=1)), "what cannot be read is not wrong"


@pytest.mark.parametrize(
    ("change", "code", "device", "subject"),
    [
        ({"is_forwarding": False, "unforwarding": DEVICES}, FaultCode.FORWARDING_OFF, "", "ip_forward"),
        ({"unforwarding": ("flannel.1",)}, FaultCode.FORWARDING_OFF, "flannel.1", "forwarding"),
        ({"rp_filter": {"kilo0": 1}}, FaultCode.RP_FILTER_STRICT, "kilo0", "rp_filter"),
        ({"conntrack_count": 980}, FaultCode.CONNTRACK_FULL, "", "nf_conntrack"),
        ({"conntrack_drops": 9}, FaultCode.CONNTRACK_FULL, "", "nf_conntrack"),
        ({"conntrack_invalid": 5000 + 400}, FaultCode.CONNTRACK_INVALID, "", "nf_conntrack"),
        ({"udp_checksum_errors": 3 + 20}, FaultCode.OFFLOAD_FAULT, "", "udp"),
    ],
)
def test_each_change_is_named_alone(change, code, device, subject):
    """With this node as the culprit: nobody else is to blame."""
    assert [(code, device, subject, "b1")] == _look(FINE, _later(10, **change))


@pytest.mark.parametrize(
    "change", [{"is_forwarding": False, "unforwarding": DEVICES}, {"unforwarding": ("flannel.1",)}]
)
def test_a_host_without_a_cni_need_not_forward(change):
    """The CNI turns it on when it starts; before, the kernel's default is no fault. Everything else is."""
    assert [] == _look(FINE, _later(10, **change), has_cni=False)
    assert 1 == len(_look(FINE, _later(10, conntrack_count=980, **change), has_cni=False))


@pytest.mark.parametrize("change", [{"conntrack_invalid": 5000 + 100}, {"udp_checksum_errors": 3 + 5}])
def test_a_few_odd_packets_are_nobodys_fault(change):
    """Retransmissions after a timeout, a bit flipped on the way."""
    assert [] == _look(FINE, _later(10, **change))


def test_a_burst_is_over_when_the_window_has_passed():
    """Rates are of the last ten seconds, not since the daemon started."""
    burst = {"conntrack_invalid": 9000, "conntrack_drops": 99}

    assert 2 == len(_look(FINE, _later(5, **burst)))
    assert [] == _look(FINE, _later(5, **burst), _later(10, **burst), _later(16, **burst))


@pytest.mark.parametrize(
    ("unforwarding", "told"),
    [((), []), (("flannel.1",), ["flannel.1"]), (DEVICES, [""]), ((*DEVICES, "cni0"), [""])],
    ids=["no device", "one", "all", "that of the pods as well"],
)
def test_the_devices_decide_where_forwarding_is_off_for_the_host(unforwarding, told):
    """OVN-Kubernetes has `ip_forward` at 0, and forwarding on at its own devices: the kernel asks the device alone."""
    audit = HostAudit("b1")
    audit.observe(_later(0, is_forwarding=False, unforwarding=unforwarding))

    assert told == [each.device for each in audit.look(has_cni=True)]
    assert audit.is_forwarding == (not unforwarding)
