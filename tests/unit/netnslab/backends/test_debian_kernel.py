"""Which parts of a kernel package are unpacked, and which kernel is taken."""

from __future__ import annotations

import io
import os
import tarfile

import pytest

from netnslab.backends import debian_kernel
from netnslab.backends.model import BackendError

WANTED = {
    "./boot/vmlinuz-6.1.0-9-amd64": "boot/vmlinuz-6.1.0-9-amd64",
    "./lib/modules/6.1.0-9-amd64/modules.builtin": "lib/modules/6.1.0-9-amd64/modules.builtin",
    "./usr/lib/modules/6.12-amd64/kernel/net/ipv4/ipip.ko.xz": "lib/modules/6.12-amd64/kernel/net/ipv4/ipip.ko.xz",
    "./lib/modules/6.1.0-9-amd64/kernel/drivers/net/wireguard/wireguard.ko": (
        "lib/modules/6.1.0-9-amd64/kernel/drivers/net/wireguard/wireguard.ko"
    ),
    "./lib/modules/6.1.0-9-amd64/kernel/drivers/net/veth.ko": ("lib/modules/6.1.0-9-amd64/kernel/drivers/net/veth.ko"),
}
UNWANTED = (
    "./boot/System.map-6.1.0-9-amd64",
    "./lib/modules/6.1.0-9-amd64/kernel/sound/soundcore.ko",
    "./lib/modules/6.1.0-9-amd64/kernel/drivers/net/ethernet/intel/e1000/e1000.ko",
    "./usr/share/doc/linux-image-6.1.0-9-amd64/copyright",
)


def _package(names) -> tarfile.TarFile:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as writer:
        for name in names:
            writer.addfile(tarfile.TarInfo(name))
    buffer.seek(0)
    return tarfile.open(fileobj=buffer)


def _kernel(cache, release: str, *, age_s: int, has_index: bool = True):
    image = cache / release / "boot" / f"vmlinuz-{release}"
    modules = cache / release / "lib" / "modules" / release
    image.parent.mkdir(parents=True)
    modules.mkdir(parents=True)
    image.touch()
    os.utime(image, (1_000_000 - age_s, 1_000_000 - age_s))
    if has_index:
        (modules / "modules.dep").touch()
    return image


def test_image_and_network_modules_are_unpacked_to_one_layout():
    """Old and new packages differ in a leading usr/; kmod and virtme look in lib/modules."""
    with _package([*WANTED, *UNWANTED]) as package:
        assert list(WANTED.values()) == [member.name for member in debian_kernel._wanted(package)]


def test_dependencies_on_kernel_packages_are_recognised():
    """Debian names one package, Ubuntu splits the modules off; alternatives and versions are not names."""
    depends = (
        "linux-image-6.8.0-50-generic, linux-modules-extra-6.8.0-50-generic, linux-firmware, "
        "linux-image-6.1.0-56-amd64 (= 6.1.192-2), linux-base | linux-image-extra"
    )
    assert [
        "linux-image-6.8.0-50-generic",
        "linux-modules-extra-6.8.0-50-generic",
        "linux-image-6.1.0-56-amd64",
    ] == debian_kernel._KERNEL_PACKAGE.findall(depends)


def test_kernel_fetched_last_is_taken_if_it_is_complete(tmp_path, monkeypatch):
    """A half-deleted cache entry is passed over."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("NETNSLAB_KERNEL", raising=False)
    cache = debian_kernel.cache_directory()
    assert debian_kernel.cached() is None
    _kernel(cache, "6.1.0-7-amd64", age_s=300)
    wanted = _kernel(cache, "6.1.0-8-amd64", age_s=200)
    _kernel(cache, "6.1.0-9-amd64", age_s=100, has_index=False)

    kernel = debian_kernel.obtain()
    assert (wanted, "6.1.0-8-amd64") == (kernel.image, kernel.release)


def test_chosen_kernel_must_have_its_modules(tmp_path, monkeypatch):
    """$NETNSLAB_KERNEL comes before the cache, and says what is wrong with it."""
    image = _kernel(tmp_path, "6.1.0-9-amd64", age_s=0, has_index=False)
    monkeypatch.setenv("NETNSLAB_KERNEL", str(image))

    with pytest.raises(BackendError, match=r"NETNSLAB_KERNEL=.*lib/modules/6\.1\.0-9-amd64"):
        debian_kernel.obtain()
