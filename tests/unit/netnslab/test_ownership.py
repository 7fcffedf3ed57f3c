"""Who may remove a lab: its owner, or anybody once the owner or the boot is gone."""

import os

import msgspec

from netnslab import process
from netnslab.ownership import FaultRecord, LabRecord
from netnslab.process import ProcessId


def record(**changes):
    """A lab of this very process and boot."""
    owned = {"owner": process.identify(os.getpid()), "boot_id": process.boot_id()} | changes
    return LabRecord(lab_id="x", topology="kilo-flannel", **owned)


def test_a_lab_of_a_living_owner_is_not_abandoned():
    """Nor is one that stays until somebody says down."""
    assert not record().is_abandoned()
    assert not record(owner=None).is_abandoned()


def test_a_dead_owner_or_another_boot_abandons_a_lab():
    """A recycled process id is not the owner."""
    assert record(owner=ProcessId(pid=os.getpid(), start_ticks=1)).is_abandoned()
    assert record(boot_id="another").is_abandoned()
    assert record(boot_id="another", owner=None).is_abandoned()


def test_a_record_survives_its_file_format():
    """JSON and back."""
    written = record(faults=[FaultRecord(kind="random-loss", node="b3", is_injected=True, parameters={"ratio": 0.1})])

    assert written == msgspec.json.decode(msgspec.json.encode(written), type=LabRecord)
