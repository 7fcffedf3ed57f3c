"""The tree that packages for whole distributions hold: its own Python, and of the host the C library alone.

    usr/lib/meshwatchd/versions/V/python/usr/{bin,lib}   Debian's interpreter and libraries, locked packages, the daemon
    usr/lib/meshwatchd/versions/V/bin/                   the commands
    usr/lib/meshwatchd/current -> versions/V             as `make install` has it

One package thus serves every release with that C library or a newer one, and nothing of the distribution's Python can
break it. The interpreter finds its libraries by DT_RPATH, which holds for modules as well and reaches no other program.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path
from typing import Final

from scripts.talos_extension import debian, rootfs
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON, KUBE, Product

CHECKOUT: Final = Path(__file__).resolve().parents[2]
HOME: Final = Path("usr/lib/meshwatchd")
CONFIGURATION: Final = ("/etc/meshwatchd/meshwatchd.toml", "/etc/iproute2/rt_protos.d/meshwatchd.conf")
"""Files that an upgrade does not write over once somebody has changed them."""

HOST_LIBRARIES: Final = ("ld-linux-*", "libc.so.*", "libdl.so.*", "libm.so.*", "libpthread.so.*", "librt.so.*")
"""Of the C library: its loader, which the kernel takes from the host, loads no other one's."""

_COMMAND: Final = "#!/{python} -P\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"


def build(tree: Path, recipe: rootfs.Recipe, version: str) -> str:
    """Put the bundle and the files around it into an empty folder; returns the C library's version that it needs.

    Raises:
        BuildError: something cannot be fetched, or a library is missing.
    """
    final = HOME / "versions" / version
    root = tree / final / "python"
    root.mkdir(parents=True)
    rootfs.build_python(root, recipe)
    python = root / "usr/bin" / f"python{recipe.python}"
    _set_rpath(python, recipe)
    rootfs.compile_and_check(root, recipe.product, stripped=str(tree))
    for name, module in recipe.product.commands.items():
        command = tree / final / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(_COMMAND.format(python=python.relative_to(tree), module=module), encoding="ascii")
        command.chmod(0o755)
        link = tree / "usr/bin" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(f"../lib/meshwatchd/current/bin/{name}")
    (tree / HOME / "current").symlink_to(f"versions/{version}")
    unit = tree / "usr/lib/systemd/system/meshwatchd.service"
    unit.parent.mkdir(parents=True)
    shutil.copyfile(CHECKOUT / "systemd/meshwatchd.service", unit)
    subprocess.run([CHECKOUT / "scripts/system-files", "install", tree, "/usr", "/etc"], check=True)
    _compress_manuals(tree)
    return recipe.packages.version("libc6").partition("-")[0]


def set_modes(tree: Path) -> None:
    """What the build's umask has made of modes: everything is for everybody to read.

    Modules of the library that begin with #! are no programs here.
    """
    for path in sorted(tree.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)


def _compress_manuals(tree: Path) -> None:
    for page in sorted((tree / "usr/share/man").glob("*/*")):
        page.with_name(f"{page.name}.gz").write_bytes(gzip.compress(page.read_bytes(), mtime=0))
        page.unlink()


def _set_rpath(python: Path, recipe: rootfs.Recipe) -> None:
    tool = recipe.packages.unpack(["patchelf"])["patchelf"] / "usr/bin/patchelf"
    (libraries,) = {path.parent for path in (python.parents[1] / "lib").glob("*-linux-gnu/*.so*")}
    rpath = f"$ORIGIN/../lib/{libraries.name}"
    command = [str(tool), "--force-rpath", "--set-rpath", rpath, str(python)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise BuildError(f"patchelf could not prepare the interpreter: {ran.stderr.strip()}")


def recipe(folder: Path, *, is_for_hosts: bool, product: Product = DAEMON) -> rootfs.Recipe:
    """What bundles are made of, fetched into a folder that is kept; the wheels of this checkout are made anew.

    Raises:
        BuildError: a tool is missing, or the wheel cannot be built.
    """
    debian.require_tools()
    command = [CHECKOUT / "scripts/wheelhouse", *(("--kube",) if product is KUBE else ()), folder / "wheels"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode != 0:
        raise BuildError(f"no wheels: {made.stderr.strip() or made.stdout.strip()}")
    return rootfs.Recipe(
        packages=debian.Packages(folder / "packages"),
        python=debian.python_minor(),
        wheels=folder / "wheels",
        product=product,
        host_libraries=HOST_LIBRARIES if is_for_hosts else (),
    )
