"""The command `meshwatchd`."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from meshwatchd import __version__
from meshwatchd.config.keys import read_mesh_key, read_stamp_key
from meshwatchd.config.load import DEFAULT_PATH, load
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import Settings
from meshwatchd.runtime.stderr import say

EXIT_OK: Final = 0
EXIT_CONFIG: Final = 2
EXIT_BUG: Final = 70
"""EX_SOFTWARE of sysexits.h."""


def main(argv: Sequence[str] | None = None) -> int:
    """Load the configuration and run the engine.

    Returns:
        0 after an orderly stop, 1 when another meshwatchd runs here, 2 for a configuration that cannot be
        used, 70 for an error nobody expected.
    """
    arguments = _parse(argv)
    try:
        settings = load(arguments.config)
        if arguments.dump_config:
            return _dump(settings)
        secret, stamp_key = _read_secret(settings), _read_stamp_key(settings)
        if arguments.check:
            return EXIT_OK
        return _run(arguments.config, settings, secret=secret, stamp_key=stamp_key)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CONFIG
    # The one place where everything is caught: whoever supervises us must see a status and one line.
    except Exception as error:  # noqa: BLE001
        say("engine.crashed", level="error", error=repr(error), trace=traceback.format_exc())
        return EXIT_BUG


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    about = "Detects, names and heals partial failures of WireGuard and VXLAN meshes."
    parser = argparse.ArgumentParser(prog="meshwatchd", description=about)
    parser.add_argument("--config", type=Path, default=DEFAULT_PATH, help="configuration file (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="check the configuration and the key, then exit")
    parser.add_argument("--dump-config", action="store_true", help="print the effective configuration")
    parser.add_argument("--version", action="version", version=f"meshwatchd {__version__}")
    return parser.parse_args(argv)


def _read_secret(settings: Settings) -> bytes:
    """The mesh key. Without a mesh there is nobody to authenticate: a daemon fresh from its package starts without."""
    path = Path(settings.auth.key_file)
    return read_mesh_key(path) if settings.mesh.location or path.exists() else os.urandom(32)


def _read_stamp_key(settings: Settings) -> bytes | None:
    """The key shared with other makers' senders, where they are answered and one is named."""
    stamp = settings.stamp
    return read_stamp_key(Path(stamp.key_file)) if stamp.listen and stamp.key_file else None


def _dump(settings: Settings) -> int:
    # Writing TOML is no business of a running engine.
    from meshwatchd.config.dump import dump_effective  # noqa: PLC0415

    sys.stdout.write(dump_effective(settings))
    return EXIT_OK


def _run(config: Path, settings: Settings, *, secret: bytes, stamp_key: bytes | None) -> int:
    # --check needs no engine.
    from meshwatchd.runtime.engine_process import Boot, run  # noqa: PLC0415

    return run(Boot(config=config, settings=settings, secret=secret, stamp_key=stamp_key))


if __name__ == "__main__":
    # What is buffered is written; what is left of the heap is the kernel's to reclaim.
    status = main()
    sys.stdout.flush()
    os._exit(status)
