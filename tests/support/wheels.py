"""A folder as `make wheelhouse` makes one, with a daemon that needs nothing: its installation is tried."""

from __future__ import annotations

import ensurepip
import shutil
import sysconfig
import zipfile
from pathlib import Path

MAIN = """
import pathlib, sys

def main():
    if "--wait" in sys.argv:
        sys.stdin.read()
    if "--check" in sys.argv and pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text() == "{refuses}":
        print("refused by {version}", file=sys.stderr)
        return 2
    print("{version}")
    return 0
"""


def put_wheels(folder: Path, version: str, *, refuses: str = "nothing", broken: str = "") -> Path:
    """Fill a folder with the wheels of pip and of a daemon; returns it.

    Args:
        folder: made when missing.
        version: what the daemon prints.
        refuses: the content of a configuration that `--check` refuses.
        broken: a module's text that cannot be imported.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundled = Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled")
    (pip,) = bundled.glob("pip-*.whl")
    shutil.copy(pip, folder)
    info = f"meshwatchd-{version}.dist-info"
    text = MAIN.format(version=version, refuses=refuses)
    entries = "[console_scripts]\nmeshwatchd = meshwatchd.runtime.main:main\nmeshwatchctl = meshwatchd.cli.main:main\n"
    files = {
        "meshwatchd/__init__.py": broken,
        "meshwatchd/runtime/__init__.py": "",
        "meshwatchd/runtime/main.py": text,
        "meshwatchd/cli/__init__.py": "",
        "meshwatchd/cli/main.py": text,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: meshwatchd\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entries,
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(folder / f"meshwatchd-{version}-py3-none-any.whl", "w") as wheel:
        for name, content in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, content)
    return folder
