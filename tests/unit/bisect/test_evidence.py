"""Evidence in sentences."""

from __future__ import annotations

import msgspec

from meshwatchd.bisect.evidence import tell_evidence
from meshwatchd.model.bisection import Flows, SeriesCounts, SeriesName, TapReport
from tests.support.bisection import HEALTHY, crafted, kernel, observed, there


def told(seen, flows: Flows = Flows.ALL, *taps: TapReport) -> str:
    """All lines."""
    return "\n".join(tell_evidence(seen, flows, taps))


def test_each_series_says_how_far_it_came():
    """In the words of its devices."""
    text = told(observed(kernel(12, 0), crafted(8, 8)))

    assert "of 12 new flows 12 entered flannel.1, 0 left eth0, 0 were answered" in text
    assert "of 8 outer packets made by hand 8 left eth0, 8 were answered" in text
    assert "entered" not in text.splitlines()[-1]


def test_refusals_are_told():
    """With what was sent, and where nothing could be."""
    refused = SeriesCounts(name=SeriesName.CRAFTED, sent=8, at_lower=0, errors=("EPERM",))
    never = SeriesCounts(name=SeriesName.KERNEL, sent=0, errors=("EADDRNOTAVAIL",))
    text = told(observed(refused, never))

    assert "0 were answered (refused: EPERM)" in text
    assert "new flows could not be sent: EADDRNOTAVAIL" in text


def test_what_weakens_evidence_is_told():
    """A tap that has lost packets; drops of a device count other people's too, and only where something is lost."""
    lossy = TapReport(device="eth0", packets=1, dropped=9)
    seen = msgspec.structs.replace(HEALTHY, overlay_dropped=3, queue_dropped=4)

    assert "the tap on eth0 lost 9 packets" in told(seen, Flows.ALL, lossy)
    assert "flannel.1 counted 3 drops and 0 errors" in told(seen)
    assert "drops and" not in told(seen, Flows.NONE)
    assert "the queues of eth0 dropped 4" in told(seen)


def test_the_peers_view_and_known_flows_are_told():
    """What was not tapped there is a question mark."""
    seen = observed(kernel(12, 12), known=(8, 7), peer_counts=there(12, 3))
    there_only = msgspec.structs.replace(seen.peer_counts[0], at_lower=None)

    assert "b1 saw of the new flows: 12 at its NIC, 3 out of its overlay device" in told(seen)
    assert "daemon's 8 probes of established flows meanwhile 7 were answered" in told(seen)
    assert "? at its NIC" in told(msgspec.structs.replace(seen, peer_counts=(there_only,)))
