"""TLVs of reports: layouts of RFC 8972, there and back."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import DecodeError
from meshwatchd.wire.report_tlv import (
    AccessReport,
    FollowUpTelemetry,
    SyncSource,
    TimestampInformation,
    TimestampMethod,
)
from meshwatchd.wire.tlv import Tlv, TlvType


@pytest.mark.parametrize(
    ("ours", "kind", "value"),
    [
        (
            TimestampInformation(
                source_in=SyncSource.NTP, method_in=TimestampMethod.SOFTWARE, source_out=SyncSource.PTP, method_out=200
            ),
            TlvType.TIMESTAMP_INFORMATION,
            "010202c8",
        ),
        (AccessReport(access_id=2, return_code=1), TlvType.ACCESS_REPORT, "20010000"),
        (
            FollowUpTelemetry(sequence=7, timestamp_ntp=0xEC00_0000_0000_0001, method=TimestampMethod.HARDWARE),
            TlvType.FOLLOW_UP_TELEMETRY,
            "00000007ec0000000000000101000000",
        ),
    ],
)
def test_values_are_laid_out_as_the_rfc_says(ours, kind, value):
    """And read back the same."""
    tlv = ours.to_tlv()

    assert (kind, value) == (tlv.type, tlv.value.hex())
    assert ours == type(ours).from_tlv(tlv)


@pytest.mark.parametrize("kind", [TimestampInformation, AccessReport, FollowUpTelemetry])
def test_another_type_or_size_is_refused(kind):
    """One byte less, and the TLV of a neighbour."""
    good = kind.to_tlv(kind(access_id=1, return_code=1) if kind is AccessReport else kind())
    for bad in (Tlv(type=good.type, value=good.value[:-1]), Tlv(type=1, value=good.value)):
        with pytest.raises(DecodeError):
            kind.from_tlv(bad)
