from meshwatchd.adapters.netlink.sweep import sweep
from meshwatchd.model.settings import KernelSettings


def test_a_dry_run_reads_and_reports_and_needs_no_privilege(tmp_path):
    """Nothing of ours is here, nothing is written, not even a key. What is removed is tested in tests/lab."""
    unused = KernelSettings(protocol=201, table_base=990_000, priority_base=31_000, device_prefix="mwx")

    assert [] == sweep(unused, dry_run=True, state_dir=tmp_path)
    assert [] == list(tmp_path.iterdir())
