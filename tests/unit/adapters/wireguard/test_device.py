import asyncio
import contextlib
import errno
import gc
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.wireguard import device as device_module
from meshwatchd.adapters.wireguard import genl, process
from meshwatchd.adapters.wireguard.device import Devices, _resolve
from meshwatchd.adapters.wireguard.process import ProcessId
from meshwatchd.adapters.wireguard.state import LinkState
from meshwatchd.model.errors import KernelError
from meshwatchd.model.plan import StandbyLink
from meshwatchd.model.settings import LinkImplementation, StandbySettings
from meshwatchd.model.snapshot import Link
from tests.support.fake_kernel import FakeKernel

LINK = StandbyLink(
    device="mw0",
    peer="a1",
    listen_port=51830,
    mtu_bytes=1420,
    peer_public_key="",
    endpoint=None,
    allowed_ips=(),
    keepalive_s=10,
)


def devices(kernel, state_dir):
    """Standby devices of a fake kernel. What real ones do is tested in tests/lab."""
    return Devices(kernel, StandbySettings(private_key_file=str(state_dir / "standby.key")), state_dir)


def device(kernel, kind="tun"):
    """Give the only device of a fake kernel a kind."""
    link = msgspec.structs.replace(kernel.present[2], kind=kind)
    kernel.present[2] = link
    return link


def test_a_device_that_somebody_else_made_is_not_touched(tmp_path):
    """The message names the remedy."""
    kernel = FakeKernel("mw0")

    with pytest.raises(KernelError, match=r"was not made by meshwatchd; remove it or set kernel.device_prefix"):
        asyncio.run(devices(kernel, tmp_path).ensure(LINK))
    assert [] == kernel.operations


def test_a_recorded_device_is_ours_as_long_as_it_is_the_same(tmp_path):
    """A namesake with another index was made by somebody else after ours had gone."""
    kernel = FakeKernel("mw0")
    link, keeper = device(kernel), devices(kernel, tmp_path)
    keeper.registry.put("mw0", index=link.index)

    assert asyncio.run(keeper.is_ours(link))
    assert not asyncio.run(keeper.is_ours(msgspec.structs.replace(link, index=77)))
    assert not asyncio.run(keeper.is_ours(msgspec.structs.replace(link, kind="dummy")))


def test_only_recorded_devices_are_removed(tmp_path):
    """By name and index; what is not recorded is not ours to remove."""
    kernel = FakeKernel("mw0")
    link, keeper = device(kernel), devices(kernel, tmp_path)

    asyncio.run(keeper.remove("mw0"))
    assert [] == kernel.operations

    keeper.adopt(link)
    assert ("mw0",) == keeper.recorded()
    asyncio.run(keeper.remove("mw0"))
    assert ["delete device mw0"] == kernel.operations
    assert () == keeper.recorded()


def test_a_configuration_file_that_stays_keeps_no_device(tmp_path, monkeypatch):
    """The disk has become read-only: the device is gone, and that is what counts."""
    kernel = FakeKernel("mw0")
    link, keeper = device(kernel), devices(kernel, tmp_path)
    keeper.adopt(link)
    unlink = Path.unlink

    def refuse(path, **options):
        if path.suffix == ".conf":
            raise OSError(errno.EROFS, "Read-only file system")
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", refuse)
    asyncio.run(keeper.remove("mw0"))

    assert ["delete device mw0"] == kernel.operations
    assert () == keeper.recorded()


def test_a_namesake_of_a_recorded_device_survives_its_removal(tmp_path):
    """The record is dropped, the stranger stays."""
    kernel = FakeKernel("mw0")
    keeper = devices(kernel, tmp_path)
    keeper.registry.put("mw0", index=77)

    asyncio.run(keeper.remove("mw0"))

    assert [] == kernel.operations
    assert () == keeper.recorded()


@pytest.mark.parametrize("kind", ["wireguard", "tun"])
def test_a_name_on_record_without_an_index_proves_nothing(tmp_path, kind):
    """A daemon that died while it made mw0 left index 0; the mw0 of today is another VPN's, and sweep spares it."""
    kernel = FakeKernel("mw0")
    link, keeper = device(kernel, kind), devices(kernel, tmp_path)
    keeper.registry.put("mw0")

    assert not asyncio.run(keeper.is_ours(link))
    asyncio.run(keeper.remove("mw0"))

    assert [] == kernel.operations
    assert () == keeper.recorded()


def test_an_attempt_that_failed_leaves_no_record(tmp_path):
    """What was never made is nobody's."""
    config = StandbySettings(private_key_file=str(tmp_path / "standby.key"), implementation=LinkImplementation.KERNEL)
    keeper = Devices(_Refusing(), config, tmp_path)

    with pytest.raises(KernelError, match="add mw0"):
        asyncio.run(keeper.ensure(LINK))

    assert () == Devices(FakeKernel(), config, tmp_path).recorded()


def test_a_process_whose_device_cannot_be_found_is_ended(tmp_path, monkeypatch):
    """Or it would keep the name for ever, on no record."""
    ended: list[ProcessId] = []
    carrier = ProcessId(pid=7, start_ticks=9)

    async def start(_device: str) -> ProcessId:
        return carrier

    async def end(process: ProcessId) -> None:
        ended.append(process)

    monkeypatch.setattr(process, "start", start)
    monkeypatch.setattr(process, "end", end)
    keeper = Devices(
        FakeKernel(),
        StandbySettings(private_key_file=str(tmp_path / "standby.key"), implementation=LinkImplementation.USERSPACE),
        tmp_path,
    )
    with pytest.raises(KernelError, match="vanished as soon as it was made"):
        asyncio.run(keeper.ensure(LINK))

    assert [carrier] == ended
    assert () == keeper.recorded()


class _Refusing(FakeKernel):
    """A kernel in which nothing can be made."""

    async def add_wireguard(self, device: str) -> None:
        raise KernelError(f"add {device}", 1, "not allowed")


class _Watched(FakeKernel):
    """A kernel whose devices are seen as soon as they are there."""

    keeper: Devices
    seen: bool | None = None

    async def add_wireguard(self, device: str) -> None:
        self.seen = await self.keeper.is_ours(Link(name=device, index=9, kind="wireguard", is_up=False, mtu_bytes=1420))
        raise KernelError(f"add {device}", 1, "not allowed")


def test_a_device_that_is_being_made_is_ours(tmp_path):
    """A notification comes before what makes it has returned; an attempt that failed owns nothing."""
    config = StandbySettings(private_key_file=str(tmp_path / "standby.key"), implementation=LinkImplementation.KERNEL)
    kernel = _Watched()
    kernel.keeper = Devices(kernel, config, tmp_path)
    with pytest.raises(KernelError):
        asyncio.run(kernel.keeper.ensure(LINK))

    assert kernel.seen
    link = Link(name="mw0", index=9, kind="wireguard", is_up=False, mtu_bytes=1420)
    assert not asyncio.run(kernel.keeper.is_ours(link))


class _Slow(FakeKernel):
    """A kernel that has made a device before it says so."""

    def __init__(self, *, refusal: str = "") -> None:
        super().__init__()
        self.refusal = refusal
        self.has_made, self.may_answer = asyncio.Event(), asyncio.Event()

    async def add_wireguard(self, device: str) -> None:
        if not self.refusal:
            await super().add_wireguard(device)
        self.has_made.set()
        await self.may_answer.wait()
        if self.refusal:
            raise KernelError(f"add {device}", 1, self.refusal)


async def _cancelled(kernel, keeper, times):
    """Make a device and stop meanwhile; what is begun may go on before the kernel has answered."""
    work = asyncio.get_running_loop().create_task(keeper.ensure(LINK))
    await kernel.has_made.wait()
    for _ in range(times):
        work.cancel()
        await asyncio.sleep(0)
    assert not work.done(), "it waits for what the kernel says"
    kernel.may_answer.set()
    await asyncio.wait((work,))
    return work.cancelled()


@pytest.mark.parametrize("times", [1, 2])
def test_a_stop_while_a_device_is_being_made_leaves_it_on_record(tmp_path, monkeypatch, times):
    """The next daemon knows it for ours and goes on; it would take the name for a stranger's, and only watch."""
    (tmp_path / "sys/net/ipv4/conf/mw0").mkdir(parents=True)
    monkeypatch.setattr(device_module, "PROC", tmp_path)
    kernel = _Slow()
    assert asyncio.run(_cancelled(kernel, devices(kernel, tmp_path), times))

    link = kernel.present[2]
    later = devices(kernel, tmp_path)
    assert asyncio.run(later.is_ours(link))

    told: list[str] = []

    async def read(_device: str) -> LinkState:
        return LinkState(private_key="", public_key="", listen_port=0, peers=())

    async def configure(device: str, _config: object, _state: object) -> None:
        told.append(device)

    monkeypatch.setattr(genl, "read", read)
    monkeypatch.setattr(genl, "configure", configure)
    asyncio.run(later.ensure(LINK))
    assert ["mw0"] == told
    assert ["add device mw0"] == kernel.operations
    assert kernel.present[2].is_up


def test_a_stop_while_a_device_is_refused_leaves_no_record(tmp_path, caplog):
    """Nor a word of a failure that nobody waits for."""
    config = StandbySettings(private_key_file=str(tmp_path / "standby.key"), implementation=LinkImplementation.KERNEL)
    kernel = _Slow(refusal="not allowed")

    assert asyncio.run(_cancelled(kernel, Devices(kernel, config, tmp_path), 1))
    assert () == Devices(kernel, config, tmp_path).recorded()
    gc.collect()
    assert [] == caplog.records


def test_a_stop_does_not_wait_for_ever(tmp_path, monkeypatch):
    """A kernel that does not answer keeps no daemon from ending."""
    monkeypatch.setattr(device_module, "MAKE_TIMEOUT_S", 0.01)
    kernel = _Slow()

    async def scenario() -> bool:
        work = asyncio.get_running_loop().create_task(devices(kernel, tmp_path).ensure(LINK))
        await kernel.has_made.wait()
        work.cancel()
        await asyncio.wait((work,), timeout=10)
        return work.cancelled()

    assert asyncio.run(scenario())


@pytest.mark.parametrize(("of_all", "is_up"), [("0", True), ("1", False), ("2", True)])
def test_where_proc_is_read_only_a_device_is_brought_up_unless_a_filter_is_strict(tmp_path, monkeypatch, of_all, is_up):
    """Containers have it so; a strict filter would drop what comes back, and is said."""
    for name, value in (("all", of_all), ("mw0", "0")):
        folder = tmp_path / "sys/net/ipv4/conf" / name
        folder.mkdir(parents=True)
        (folder / "rp_filter").write_text(value)
    monkeypatch.setattr(device_module, "PROC", tmp_path)
    kernel = FakeKernel("mw0")

    def refuse(_path: Path, _text: str) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "write_text", refuse)
    with contextlib.nullcontext() if is_up else pytest.raises(KernelError, match="set rp_filter of mw0 to 0"):
        asyncio.run(devices(kernel, tmp_path)._dress(device(kernel), 1400))

    assert is_up is (kernel.present[2].mtu_bytes == 1400)


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("203.0.113.11:51830", ("203.0.113.11", 51830)),
        ("[2001:db8::1]:51830", ("2001:db8::1", 51830)),
        ("localhost:51830", ("127.0.0.1", 51830)),
    ],
)
def test_endpoints_are_addresses_or_names(endpoint, expected):
    """Only names are looked up."""
    address, port = asyncio.run(_resolve(endpoint))

    assert port == expected[1]
    assert address in {expected[0], "::1" if endpoint.startswith("localhost") else expected[0]}


def test_a_name_that_does_not_exist_is_an_error_with_its_name():
    """`.invalid` never resolves (RFC 6761)."""
    with pytest.raises(KernelError, match=r"resolve no-such-host.invalid"):
        asyncio.run(_resolve("no-such-host.invalid:51830"))


@pytest.mark.parametrize("host", ["a..b", f"{'a' * 64}.net"])
def test_a_name_that_cannot_be_looked_up_is_an_error_with_its_name(host):
    """A peer of another version says it; Python refuses its labels before anybody is asked."""
    with pytest.raises(KernelError, match=f"resolve {host}"):
        asyncio.run(_resolve(f"{host}:51830"))
