import msgspec
import pytest

from meshwatchd.adapters.wireguard.process import ProcessId
from meshwatchd.adapters.wireguard.registry import Registry


def test_records_survive_a_restart(tmp_path):
    """The next daemon knows what the last one made."""
    carrier = ProcessId(pid=77, start_ticks=5)
    before = Registry(tmp_path)
    before.put("mw1", index=9)
    before.put("mw0", index=4, process=carrier)

    after = Registry(tmp_path)

    assert ["mw0", "mw1"] == [record.device for record in after.records()]
    found = after.find("mw0")
    assert found is not None
    assert (4, carrier) == (found.index, found.process)


def test_a_forgotten_device_is_forgotten_for_good(tmp_path):
    """And a second time is no error."""
    registry = Registry(tmp_path)
    registry.put("mw0")
    registry.forget("mw0")
    registry.forget("mw0")

    assert () == Registry(tmp_path).records()


def test_records_of_another_boot_mean_nothing(tmp_path):
    """Devices and processes are gone; the numbers may belong to somebody else."""
    registry = Registry(tmp_path)
    registry.put("mw0", index=4)
    content = msgspec.json.decode(registry.path.read_bytes())
    content["links"][0]["boot_id"] = "another"
    registry.path.write_bytes(msgspec.json.encode(content))

    assert () == Registry(tmp_path).records()


def test_a_damaged_file_is_put_aside(tmp_path):
    """A power cut may leave an empty file; the daemon starts all the same."""
    (tmp_path / "links.json").write_bytes(b"")

    assert () == Registry(tmp_path).records()
    assert (tmp_path / "links.json.bad").exists()


def test_a_file_of_another_version_is_not_guessed_at(tmp_path):
    """Its fields may mean something else."""
    (tmp_path / "links.json").write_bytes(b'{"version": 2, "links": []}')

    assert () == Registry(tmp_path).records()


@pytest.mark.parametrize(
    "content", [b"\xff", b"[" * 100_000, b'{"version": 1, "links": [{"index": %s}]}' % (b"9" * 400)]
)
def test_no_byte_in_the_file_keeps_a_daemon_from_starting(tmp_path, content):
    """The agent reads it at each start: what it cannot read would end it each time."""
    (tmp_path / "links.json").write_bytes(content)
    registry = Registry(tmp_path)
    registry.put("mw0", index=4)

    assert content == (tmp_path / "links.json.bad").read_bytes()
    assert ["mw0"] == [record.device for record in Registry(tmp_path).records()]
