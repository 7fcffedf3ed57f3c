from netnslab.bench.stream import ARRIVED, SENT
from netnslab.bench.stream_records import Arrival, StreamRecords

MS = 1_000_000
TEST, STANDBY = 3, 2


def test_an_outage_lasts_from_the_first_lost_packet_to_the_next_arrival():
    """Lost from 1 000 ms on, back over the standby with the packet of 1 130 ms."""
    outage = _records(lost=range(1_000, 1_130)).outage(990 * MS, 1_500 * MS)

    assert outage is not None
    assert (1_000 * MS, 1_130 * MS + 50_000, STANDBY, 130) == (
        outage.began_ns,
        outage.first_ns,
        outage.interface,
        outage.lost,
    )
    assert 130 * MS + 50_000 == outage.duration_ns


def test_losses_before_the_fault_are_not_its_outage():
    """A packet that was lost a second before."""
    assert _records(lost=[500]).outage(990 * MS, 1_500 * MS) is None


def test_a_stream_that_stays_away_has_an_outage_without_end():
    """Nothing arrives until the sender ends."""
    outage = _records(lost=range(1_000, 2_000)).outage(990 * MS, 1_500 * MS)

    assert outage is not None
    assert outage.first_ns is None
    assert outage.duration_ns is None
    assert 1_000 == outage.lost


def test_files_cut_off_in_a_record_are_read_up_to_it(tmp_path):
    """A process that was killed in the middle of a write."""
    sent, arrived = tmp_path / "sent", tmp_path / "arrived"
    sent.write_bytes(SENT.pack(0, 10 * MS) + SENT.pack(1, 11 * MS) + b"\0" * 5)
    arrived.write_bytes(ARRIVED.pack(0, 10 * MS + 1, TEST) + b"\0" * 7)

    outage = StreamRecords.read(sent, arrived).outage(0, 20 * MS)

    assert outage is not None
    assert 11 * MS == outage.began_ns


def _records(*, lost):
    """One packet a millisecond for two seconds; those after 1 s come over the standby."""
    numbers = range(2_000)
    return StreamRecords(
        [number * MS for number in numbers],
        {
            number: Arrival(at_ns=number * MS + 50_000, interface=TEST if number < 1_000 else STANDBY)
            for number in numbers
            if number not in set(lost)
        },
    )
