"""The container's root: an interpreter, what it needs, and one product, and no more."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final, Protocol

from scripts.talos_extension import debian, elf
from scripts.talos_extension.errors import BuildError
from scripts.talos_extension.products import DAEMON, Product

SITE: Final = "usr/lib/python3/dist-packages"
"""Where Debian's interpreter looks first."""

_CHECKOUT: Final = Path(__file__).resolve().parents[2]
_PATTERNS: Final = _CHECKOUT / "requirements" / "left-out.txt"
_IMPORT_ALL: Final = _CHECKOUT / "scripts" / "import-all"

LEFT_OUT: Final = (
    # Of the standard library: what makes or tests programs, draws, or reads manuals.
    "config-*",
    "curses",
    "dbm",
    "distutils",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "lib-dynload/_crypt.*",
    "lib-dynload/_curses*",
    "lib-dynload/_dbm.*",
    "lib-dynload/_test*",
    "lib-dynload/nis.*",
    "lib-dynload/readline.*",
    "pydoc_data",
    "sitecustomize.py",
    "test",
    "tkinter",
    "turtle*",
    "venv",
)
LEFT_OUT_OF_SITE: Final = (
    # Commands whose first line names the interpreter of the build, and manual pages.
    "bin",
    "share",
    *(line for line in _PATTERNS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")),
)

COMMAND: Final = "#!/usr/bin/python3 -P\nimport sys\n\nfrom {module} import main\n\nsys.exit(main())\n"


class Shelf(Protocol):
    """Where unpacked packages are."""

    def unpack(self, names: Sequence[str]) -> dict[str, Path]:
        """Fetch packages; returns the folder of each."""
        ...

    def beside(self, name: str) -> list[str]:
        """The packages that one depends on."""
        ...

    def folder(self, name: str) -> Path:
        """Where a package is unpacked."""
        ...

    def version(self, name: str) -> str:
        """An unpacked package's version."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a root is made of.

    Attributes:
        packages: fetches and unpacks Debian's.
        python: "3.11".
        wheels: the folder with the wheels that are made of this checkout.
        product: what the root is made for.
        host_libraries: patterns of those that the host brings.
    """

    packages: Shelf
    python: str
    wheels: Path
    product: Product = DAEMON
    host_libraries: tuple[str, ...] = ()


def build(root: Path, recipe: Recipe) -> dict[str, str]:
    """Make the container's root in an empty folder; returns the version of each Debian package that is in it.

    Raises:
        BuildError: something cannot be fetched, or a library is missing.
    """
    versions = build_python(root, recipe)
    _put_rest(root, recipe.product)
    compile_and_check(root, recipe.product, stripped=str(root))
    return versions


def build_python(root: Path, recipe: Recipe) -> dict[str, str]:
    """The interpreter with all that it needs and the product, below usr, not compiled yet; returns as `build` does.

    Raises:
        BuildError: as `build`.
    """
    origins = _put_python(root, recipe)
    _put_site(root, recipe)
    used = put_libraries(root, recipe, origins)
    for name in sorted(used):
        copyright_file = recipe.packages.folder(name) / debian.DOCUMENTS / name / "copyright"
        if copyright_file.exists():
            _copy(copyright_file, root / debian.DOCUMENTS / name / "copyright")
    return {name: recipe.packages.version(name) for name in sorted(used)}


def _put_python(root: Path, recipe: Recipe) -> dict[Path, str]:
    """Interpreter and standard library; returns which package each file came from."""
    name = f"python{recipe.python}"
    folders = recipe.packages.unpack([f"{name}-minimal", f"lib{name}-minimal", f"lib{name}-stdlib"])
    origins: dict[Path, str] = {}
    for package, folder in folders.items():
        modules = folder / "usr/lib" / name
        files = [path for path in sorted(modules.rglob("*")) if path.is_file()]
        wanted = [path for path in files if not is_left_out(path.relative_to(modules), LEFT_OUT)]
        for source in (*wanted, *(folder / "usr/bin").glob(name)):
            inside = source.relative_to(folder)
            _copy(source, root / inside)
            origins[inside] = package
    (root / "usr/bin/python3").symlink_to(name)
    return origins


def is_left_out(path: PurePath, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern names a path or a folder that it is in; what others have compiled is left out everywhere."""
    if "__pycache__" in path.parts:
        return True
    leads = [PurePath(*path.parts[:depth]) for depth in range(1, len(path.parts) + 1)]
    depths = {pattern: len(PurePath(pattern).parts) for pattern in patterns}
    return any(lead.match(pattern) for pattern, depth in depths.items() for lead in leads if len(lead.parts) == depth)


def _put_site(root: Path, recipe: Recipe) -> None:
    """The locked packages, and the product from its wheels."""
    site = root / SITE
    locked = [argument for path in recipe.product.requirements for argument in ("-r", str(path))]
    _pip(recipe, site, "--require-hashes", *locked)
    # Found by name in a folder, not given by path: pip would record this checkout's path in the image.
    _pip(recipe, site, "--no-index", "--find-links", str(recipe.wheels), *recipe.product.packages)
    for path in [path for path in site.rglob("*") if path.is_symlink() or path.is_file()]:
        if is_left_out(path.relative_to(site), LEFT_OUT_OF_SITE):
            path.unlink()
    _drop_empty_folders(site)


def _pip(recipe: Recipe, site: Path, *what: str) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    command += ["--no-deps", "--only-binary=:all:", "--python-version", recipe.python, "--target", str(site), *what]
    # make exports the checkout's path for the tests; pip would take the checkout for an installed meshwatchd.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode != 0:
        raise BuildError(f"pip could not install {recipe.product.name} or its packages: {ran.stderr.strip()}")


def _drop_empty_folders(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()


def put_libraries(root: Path, recipe: Recipe, origins: dict[Path, str]) -> set[str]:
    """Every library that a file needs which is there; returns the packages that something is from."""
    used = set(origins.values())
    files = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    # Debian's own first: they know the packages to look in.
    queue = sorted(files, key=lambda path: path.relative_to(root) not in origins)
    there: set[str] = set()
    for path in queue:
        inside = path.relative_to(root)
        needs = elf.read_needs(path)
        for wanted in (*needs.libraries, needs.interpreter) if needs else ():
            name = Path(wanted).name
            if not name or name in there:
                continue
            package, source = _find(name, origins.get(inside), used, recipe, needed_by=inside)
            there.add(name)
            used.add(package)
            if any(PurePath(name).match(pattern) for pattern in recipe.host_libraries):
                continue
            # A loader is where programs say it is; /lib and /lib64 are links into /usr.
            place = (
                Path(wanted) if wanted.startswith("/") else "/" / source.relative_to(recipe.packages.folder(package))
            )
            target = Path("usr") / (
                place.relative_to("/usr") if place.is_relative_to("/usr") else place.relative_to("/")
            )
            _copy(source, root / target)
            origins[target] = package
            queue.append(root / target)
    return used


def _find(name: str, origin: str | None, used: set[str], recipe: Recipe, *, needed_by: Path) -> tuple[str, Path]:
    """The package that has a library, and its file.

    It is looked for in the package of the file that needs it and in those that this one depends on. What a module out
    of a wheel needs, which knows nothing of Debian, has to be in a package that something else is from, or that such a
    package depends on: libc6 does on libgcc-s1, which holds what Rust needs.
    """
    for names in _neighbourhood(origin, used, recipe):
        for package, folder in recipe.packages.unpack(names).items():
            for path in sorted(folder.rglob(name)):
                return package, path
    raise BuildError(f"/{needed_by} needs {name}, which is in no package that {origin or 'the interpreter'} depends on")


def _neighbourhood(origin: str | None, used: set[str], recipe: Recipe) -> Iterator[list[str]]:
    if origin is None:
        yield sorted(used)
        yield from map(recipe.packages.beside, sorted(used))
        return
    yield [origin]
    yield recipe.packages.beside(origin)


def _put_rest(root: Path, product: Product) -> None:
    for folder in product.folders:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in product.files.items():
        (root / name).write_text(text, encoding="utf-8")
    for name, target in product.links.items():
        (root / name).symlink_to(target)
    for name, module in product.commands.items():
        command = root / "usr/bin" / name
        command.write_text(COMMAND.format(module=module), encoding="ascii")
        command.chmod(0o755)


def compile_and_check(root: Path, product: Product, *, stripped: str) -> None:
    """Compile all modules with the image's own interpreter, and import every one of the product: nothing was left out.

    The root cannot be written to later on. The hash seed decides in which order sets of constants are written;
    unchecked hashes leave times out. What compiling imports must not be written by importing it, with times in it.

    Args:
        root: what holds usr.
        product: what is in it.
        stripped: leads the paths that tracebacks shall not name.
    """
    paths = ["-s", stripped, "-p", "/", str(root / "usr/lib")]
    _run_inside(root, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash", *paths)
    _run_inside(root, "-P", str(_IMPORT_ALL), *product.packages.values())


def _run_inside(root: Path, *arguments: str) -> None:
    """Run the image's interpreter where it lies, with its own loader and libraries."""
    loaders = sorted((root / "usr").glob("lib*/ld-linux-*.so.*"))
    libraries = ":".join(sorted({str(path.parent) for path in (root / "usr/lib").glob("*-linux-gnu/*.so*")}))
    # A root without a loader is the host's to load, and knows where its libraries are.
    loading = [str(loaders[0]), "--library-path", libraries] if loaders else []
    command = [*loading, str(root / "usr/bin/python3"), *arguments]
    environment = {
        "PYTHONHOME": str(root / "usr"),
        "PYTHONPATH": str(root / SITE),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if ran.returncode != 0:
        said = (ran.stderr.strip() or ran.stdout.strip() or "nothing").splitlines()[-1]
        raise BuildError(f"the image's interpreter ended with {ran.returncode}: {said}")


def _copy(source: Path, target: Path) -> None:
    """A file's content and whether it is executable, wherever links lead to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)
