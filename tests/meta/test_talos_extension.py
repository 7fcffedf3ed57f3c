"""The Talos extension: a description that Talos takes, an image that it can unpack, and the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import struct
import sys
import tarfile
from pathlib import Path

import pytest

from meshwatchd.config.load import load
from meshwatchd.model.errors import ConfigError
from meshwatchd.runtime import container, main
from scripts.talos_extension import __main__ as command
from scripts.talos_extension import debian, description, elf, oci, rootfs
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON
from tests.meta.tree import ROOT
from tests.support.talos_config import EXAMPLE, PLACEHOLDER, read_files

SOURCE = ROOT / "talos" / "extension.toml"
KEY = "cmVwbGFjZSB0aGlzIGJ5IGEgc2VjcmV0IG9mIHlvdXI="

# Fields of a service's description (Talos, pkg/machinery/extensions/services) and of an OCI mount.
SERVICE_FIELDS = {"name", "container", "depends", "restart", "logToConsole"}
CONTAINER_FIELDS = {"entrypoint", "environment", "environmentFile", "args", "mounts", "security"}
SECURITY_FIELDS = {"writeableRootfs", "writeableSysfs", "maskedPaths", "readonlyPaths", "rootfsPropagation"}
DEPENDENCY_FIELDS = {"service", "path", "network", "time", "configuration"}
NETWORK_STATES = {"addresses", "connectivity", "hostname", "etcfiles"}
MOUNT_FIELDS = {"source", "destination", "type", "options"}


def service():
    """The service's description as it stands in the image."""
    return description.read(SOURCE)[1]


def test_the_service_is_described_in_fields_that_talos_knows():
    """One that it does not know would be passed over in silence."""
    told = service()
    box = told["container"]

    assert set() == set(told) - SERVICE_FIELDS
    assert set() == set(box) - CONTAINER_FIELDS
    assert set() == set(box["security"]) - SECURITY_FIELDS
    assert re.fullmatch(r"[-_a-z0-9]+", told["name"])
    assert "always" == told["restart"]
    assert all(1 == len(each) and set(each) <= DEPENDENCY_FIELDS for each in told["depends"])
    assert all(set(each.get("network", ())) <= NETWORK_STATES for each in told["depends"])
    assert all(MOUNT_FIELDS == set(mount) for mount in box["mounts"])


def test_the_service_sees_its_state_its_socket_and_what_overlays_tell():
    """Directories are mounted at their own paths, those of others for reading, and each has its place in the image."""
    mounts = {mount["destination"]: mount for mount in service()["container"]["mounts"]}
    settings = load(ROOT / "etc/meshwatchd/meshwatchd.toml").daemon

    assert {settings.state_dir, settings.runtime_dir, "/run/flannel", "/run/cilium"} == set(mounts)
    assert all(path == mount["source"] and "bind" == mount["type"] for path, mount in mounts.items())
    writable = {path for path, mount in mounts.items() if "ro" not in mount["options"]}
    assert {settings.state_dir, settings.runtime_dir} == writable
    assert set(mounts) <= {f"/{folder}" for folder in DAEMON.folders}


def test_the_service_may_set_what_its_own_links_need():
    """rp_filter is below /proc/sys, which a container may only read unless it is said."""
    security = service()["container"]["security"]

    assert not any("/proc/sys/net".startswith(path) for path in security["readonlyPaths"])
    assert "/proc/sysrq-trigger" in security["readonlyPaths"]
    assert not security["writeableRootfs"]


def test_both_documents_are_in_their_places(tmp_path):
    """With the version of the daemon; JSON is YAML, and these are read by a YAML parser."""
    (tmp_path / "rootfs").mkdir()
    description.write(SOURCE, tmp_path, version="1.2.3")
    manifest = json.loads((tmp_path / "manifest.yaml").read_text(encoding="utf-8"))
    told = json.loads((tmp_path / "rootfs/usr/local/etc/containers/meshwatchd.yaml").read_text(encoding="utf-8"))

    assert ("v1alpha1", "1.2.3") == (manifest["version"], manifest["metadata"]["version"])
    assert {"name", "version", "author", "description", "compatibility"} == set(manifest["metadata"])
    assert manifest["metadata"]["compatibility"]["talos"]["version"].startswith(">= v1.")
    assert service() == told


def test_the_example_configures_a_daemon_once_the_key_is_in_it(tmp_path):
    """The configuration loads; the key lands where the default setting leads; the placeholder is refused as no key."""
    files = read_files(EXAMPLE.read_text(encoding="utf-8"))
    config = tmp_path / "meshwatchd.toml"
    config.write_text(files[Path("/etc/meshwatchd/meshwatchd.toml")], encoding="utf-8")
    auth = load(config).auth
    link = DAEMON.links[auth.key_file.lstrip("/")]

    assert {Path("/etc/meshwatchd/meshwatchd.toml"), container.GIVEN / Path(link).name} == set(files)
    assert container.KEPT == Path(link).parent
    key = tmp_path / "mesh.key"
    config.write_text(f'[auth]\nkey_file = "{key}"\n', encoding="utf-8")
    key.touch(mode=0o600)
    key.write_text(KEY, encoding="ascii")
    assert main.read_boot(config).secrets
    key.write_text(files[container.GIVEN / "mesh.key"], encoding="ascii")
    with pytest.raises(ConfigError, match="base64"):
        main.read_boot(config)
    assert PLACEHOLDER in EXAMPLE.read_text(encoding="utf-8")


def plant(tree, *, names):
    """A small image root; files are made in the order that is given."""
    for name in names:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name, encoding="ascii")
        path.chmod(0o777 if name.endswith("tool") else 0o600)
        os.utime(path, (len(str(tree)), 1))
    (tree / "rootfs/empty").mkdir()
    (tree / "rootfs/link").symlink_to("../usr/tool")
    return tree


def test_the_image_is_what_its_digests_say(tmp_path):
    """Index to manifest to configuration and layer, and the layer holds the tree, of root and without times."""
    tree = plant(tmp_path / "tree", names=["manifest.yaml", "rootfs/usr/tool"])
    size = oci.write_image(tmp_path / "image.tar", tree, architecture="arm64", annotations={"a": "b"})
    with tarfile.open(tmp_path / "image.tar") as archive:
        streams = {entry.name: archive.extractfile(entry) for entry in archive}
        files = {name: stream.read() for name, stream in streams.items() if stream is not None}

    assert (tmp_path / "image.tar").stat().st_size == size
    assert {"imageLayoutVersion": "1.0.0"} == json.loads(files["oci-layout"])
    blobs = {name.removeprefix("blobs/sha256/"): blob for name, blob in files.items() if name.startswith("blobs/")}
    assert [*blobs] == [hashlib.sha256(blob).hexdigest() for blob in blobs.values()]

    def fetch(descriptor):
        blob = blobs[descriptor["digest"].removeprefix("sha256:")]
        assert len(blob) == descriptor["size"]
        return blob

    (told,) = json.loads(files["index.json"])["manifests"]
    assert {"architecture": "arm64", "os": "linux"} == told["platform"]
    manifest = json.loads(fetch(told))
    config = json.loads(fetch(manifest["config"]))
    (layer,) = manifest["layers"]
    unpacked = gzip.decompress(fetch(layer))
    assert [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"] == config["rootfs"]["diff_ids"]
    assert ("arm64", "linux") == (config["architecture"], config["os"])
    with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
        entries = {entry.name: entry for entry in archive}
    assert ["manifest.yaml", "rootfs", "rootfs/empty", "rootfs/link", "rootfs/usr", "rootfs/usr/tool"] == [*entries]
    modes = {name: entry.mode for name, entry in entries.items() if entry.isfile()}
    assert {"manifest.yaml": 0o644, "rootfs/usr/tool": 0o755} == modes
    assert {(0, 0, 0)} == {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()}
    assert "../usr/tool" == entries["rootfs/link"].linkname


def test_the_same_tree_gives_the_same_bytes(tmp_path):
    """Whenever, wherever and in whichever order its files were made."""
    images = []
    for folder, names in (("one", ["rootfs/a", "rootfs/b", "m"]), ("another", ["m", "rootfs/b", "rootfs/a"])):
        tree = plant(tmp_path / folder / "tree", names=names)
        image = tmp_path / folder / "image.tar"
        oci.write_image(image, tree, architecture="amd64", annotations={})
        images.append(image.read_bytes())

    assert images[0] == images[1]


def test_special_files_are_refused(tmp_path):
    """Talos would refuse the extension, in the middle of somebody's upgrade."""
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ValueError, match="pipe"):
        oci.pack_tree(tmp_path)


def program(*, needed, interpreter):
    """A dynamic ELF program of headers only: one segment at 0x10000, the dynamic section and strings in it."""
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in needed)
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in needed]
    loader = interpreter.encode() + b"\0"
    dynamic_at = 64 + 3 * 56
    dynamic = b"".join(struct.pack("<qQ", 1, offset) for offset in offsets)
    strings_at = dynamic_at + len(dynamic) + 32
    dynamic += struct.pack("<qQqQ", 5, 0x10000 + strings_at, 0, 0)
    loader_at = strings_at + len(strings)
    size = loader_at + len(loader)
    header = elf.MAGIC + bytes(10) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 3, 0, 0, 0)
    spans = ((1, 0, size), (2, dynamic_at, len(dynamic)), (3, loader_at, len(loader)))
    table = b"".join(
        struct.pack("<IIQQQQQQ", kind, 4, start, 0x10000 + start, 0, length, length, 8) for kind, start, length in spans
    )
    return header + table + dynamic + strings + loader


def test_a_program_says_what_it_needs(tmp_path):
    """Libraries and the loader's path; what is no program needs nothing."""
    path = tmp_path / "tool"
    path.write_bytes(program(needed=["libz.so.1", "libc.so.6"], interpreter="/lib64/ld.so"))
    (tmp_path / "text").write_text("#!/bin/sh\n", encoding="ascii")

    assert elf.Needs(libraries=("libz.so.1", "libc.so.6"), interpreter="/lib64/ld.so") == elf.read_needs(path)
    assert elf.read_needs(tmp_path / "text") is None


def test_what_this_interpreter_needs_is_read_as_well():
    """A real one: it has a loader and the C library, by itself or through its own library."""
    needs = elf.read_needs(Path(sys.executable).resolve())

    assert needs is not None
    assert "/ld-" in needs.interpreter
    assert [name for name in needs.libraries if name.startswith(("libc.so", "libpython"))]


class Unpacked:
    """Packages that are fetched already."""

    def __init__(self, folder, beside=()):
        self._folder, self._beside = folder, dict(beside)

    def unpack(self, names):
        """Their folders."""
        return {name: self._folder / name for name in names}

    def beside(self, name):
        """The packages that it needs."""
        return self._beside.get(name, [])

    def version(self, name):
        """They have none."""
        return ""

    def folder(self, name):
        """One of them."""
        return self._folder / name


def test_a_library_that_nobody_brings_ends_the_build(tmp_path):
    """And one that a package brings is put below /usr, with what it needs in turn."""
    root, shelf = tmp_path / "root", tmp_path / "shelf"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/tool").write_bytes(program(needed=["liba.so.1"], interpreter="/lib64/ld.so"))
    recipe = rootfs.Recipe(packages=Unpacked(shelf), python="3.11", wheels=tmp_path)
    origins = {Path("usr/bin/tool"): "tool"}
    for place in ("lib/m/liba.so.1", "lib/m/ld.so"):
        path = shelf / "tool" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(program(needed=[], interpreter=""))

    assert {"tool"} == rootfs.put_libraries(root, recipe, dict(origins))
    assert (root / "usr/lib/m/liba.so.1").exists()
    assert (root / "usr/lib64/ld.so").exists()

    (root / "usr/bin/module.so").write_bytes(program(needed=["libmissing.so.9"], interpreter=""))
    with pytest.raises(BuildError, match=r"/usr/bin/module\.so needs libmissing\.so\.9"):
        rootfs.put_libraries(root, recipe, dict(origins))


def test_a_module_out_of_a_wheel_finds_what_the_c_library_depends_on(tmp_path):
    """Rust needs libgcc_s, which nothing of Python's does."""
    root, shelf = tmp_path / "root", tmp_path / "shelf"
    (root / "usr/lib").mkdir(parents=True)
    (root / "usr/lib/_rust.so").write_bytes(program(needed=["libgcc_s.so.1"], interpreter=""))
    library = shelf / "libgcc-s1/lib/libgcc_s.so.1"
    library.parent.mkdir(parents=True)
    library.write_bytes(program(needed=[], interpreter=""))
    packages = Unpacked(shelf, {"libc6": ["libgcc-s1"]})
    recipe = rootfs.Recipe(packages=packages, python="3.11", wheels=tmp_path)

    assert {"libc6", "libgcc-s1"} == rootfs.put_libraries(root, recipe, {Path("usr/lib/libc.so.6"): "libc6"})
    assert (root / "usr/lib/libgcc_s.so.1").exists()


@pytest.mark.parametrize(
    ("path", "is_out"),
    [
        ("test/support.py", True),
        ("asyncio/test/x.py", False),
        ("lib-dynload/readline.cpython-311.so", True),
        ("lib-dynload/_ssl.cpython-311.so", False),
        ("asyncio/__pycache__/x.pyc", True),
        ("curses.py", False),
        ("turtledemo/x.py", True),
    ],
)
def test_patterns_leave_out_what_they_name(path, is_out):
    """Names from the root on, folders with all that is in them."""
    assert is_out == rootfs.is_left_out(Path(path), rootfs.LEFT_OUT)


def test_missing_tools_are_named_with_what_to_do(monkeypatch, tmp_path, capsys):
    """One line and status 1, before anything is made."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert 1 == command.main(["--build", str(tmp_path / "build")])
    (line,) = capsys.readouterr().err.splitlines()
    assert all(tool in line for tool in debian.TOOLS)
    assert "Debian" in line
    assert not (tmp_path / "build").exists()


FAKE_APT = """#!/bin/sh
cd {folder}
case $1-$2-$3 in
--quiet-update-) touch lists ;;
*) [ -e lists ] || {{ echo 'E: No packages found'; exit 100; }} ;;
esac
case $1-$2 in
depends---important) printf 'x\\n  PreDepends: python3.12-minimal\\n |Depends: <y>\\n  Depends: liby1\\n' ;;
--print-uris-download) echo "'http://example/p_1%3a2_all.deb' p_1%3a2_all.deb 5 SHA256:0" ;;
--quiet-download) cd "$OLDPWD" && echo "$3" >p_1%3a2_all.deb ;;
esac
"""


@pytest.fixture
def apt(monkeypatch, tmp_path):
    """An apt without package lists; what it fetches is unpacked into a file."""
    tools = tmp_path / "tools"
    tools.mkdir()
    unpack = '#!/bin/sh\nmkdir -p "$3" && cp "$2" "$3/content"\n'
    for name, text in (("apt-get", FAKE_APT), ("apt-cache", FAKE_APT), ("dpkg-deb", unpack)):
        (tools / name).write_text(text.format(folder=tools), encoding="ascii")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


def test_package_lists_are_fetched_where_they_are_missing(apt):
    """By root, that is; anybody else is told to. The interpreter's version is that of the release."""
    if os.geteuid() == 0:
        assert "3.12" == debian.python_minor()
        assert ["liby1", "python3.12-minimal"] == debian.dependencies("x")
    else:
        with pytest.raises(BuildError, match="apt-get update"):
            debian.python_minor()


def test_a_package_is_fetched_once_and_knows_its_version(apt, tmp_path):
    """The next build finds the archive; epochs are written as Debian writes them."""
    (apt / "lists").touch()
    for content in ("p\n", "kept\n"):
        packages = debian.Packages(tmp_path / "packages")
        (folder,) = packages.unpack(["p"]).values()
        assert content == (folder / "content").read_text(encoding="ascii")
        assert "1:2" == packages.version("p")
        (archive,) = (tmp_path / "packages/archives").iterdir()
        archive.write_text("kept\n", encoding="ascii")
    with pytest.raises(BuildError, match="nothing to download for q"):
        packages.unpack(["q"])
