"""`meshwatchctl bundle`: one archive for a bug report."""

from __future__ import annotations

import io
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import msgspec

import meshwatchd
from meshwatchd.adapters.control.status_reply import StatusReply
from meshwatchd.adapters.control.varlink import REPLIES
from meshwatchd.adapters.storage.event_store import FILE_NAME, GENERATIONS
from meshwatchd.cli.command_incidents import fetch_incidents
from meshwatchd.cli.main import EXIT_UNREACHABLE, Terminal
from meshwatchd.cli.redact import Redactor
from meshwatchd.cli.render import render_status
from meshwatchd.cli.text import paint_nothing
from meshwatchd.model.decoding import decode_json
from meshwatchd.model.errors import ConfigError, ControlError, DecodeError
from meshwatchd.model.settings import Settings

MAX_FILE_BYTES = 16 * 1024 * 1024
"""Of each file, its end: what happened last."""

_PROC_BYTES = 64 * 1024

CONFIG = Path("/etc/meshwatchd/meshwatchd.toml")
STATE = Path("/var/lib/meshwatchd")
_HOST = (
    Path("/etc/os-release"),
    Path("/proc/version"),
    Path("/proc/net/dev"),
    Path("/proc/net/snmp"),
    Path("/proc/sys/net/ipv4/ip_forward"),
    Path("/proc/sys/net/ipv4/conf/all/rp_filter"),
    Path("/proc/loadavg"),
    Path("/proc/meminfo"),
)

Part = tuple[str, bytes]
_Answer = TypeVar("_Answer")


@click.command("bundle")
@click.option("--anonymize", is_flag=True, help="Give addresses, names of nodes and locations, and keys other names.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The archive, a .tar.gz.")
@click.option("--config", type=click.Path(path_type=Path), default=CONFIG, show_default=True, help="Of the daemon.")
@click.option("--state", type=click.Path(path_type=Path), default=STATE, show_default=True, help="Its state directory.")
@click.pass_obj
def bundle(terminal: Terminal, *, anonymize: bool, output: Path | None, config: Path, state: Path) -> int:
    """Put status, evidence, events, incidents and configuration into one archive for a bug report.

    No key is ever in it: key files are not read, and whatever looks like a secret is left out. With --anonymize the
    same word stands for the same node, address or key everywhere, so that the story can be followed. What cannot be
    had is listed in MISSING.txt; the exit status is 3 where the daemon could not be asked.
    """
    missing: list[str] = []
    redactor = Redactor(is_anonymous=anonymize)
    parts = [*_ask(terminal, missing), *_read(config, state, missing, redactor.learn_settings), *_host(missing)]
    for _, data in parts:
        redactor.learn(data)
    parts.append(("MISSING.txt", ("\n".join(missing) + "\n").encode() if missing else b"nothing\n"))
    path = output or Path(f"meshwatch-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar.gz")
    _write(path, [(name, redactor.clean(data)) for name, data in parts])
    gaps = "".join(f"; not in it: {each}" for each in missing)
    terminal.answer({"path": str(path), "missing": missing}, lambda: f"{path}: {len(parts)} files{gaps}\n")
    return EXIT_UNREACHABLE if any(each.startswith("daemon: Status") for each in missing) else 0


def _ask(terminal: Terminal, missing: list[str]) -> Iterator[Part]:
    """What the daemon answers, as JSON, and the status as people read it."""
    for method in ("Status", "Explain", "Topology", "Mtu"):
        reply = _try(method, missing, partial(terminal.client.call, f"io.meshwatch.Control.{method}"))
        if reply is None:
            continue
        yield f"{method.lower()}.json", bytes(reply)
        if method == "Status":
            status = decode_json(reply, StatusReply, REPLIES).status
            shown = render_status(status, now_ns=time.monotonic_ns(), paint=paint_nothing, is_verbose=True)
            yield "status.txt", shown.encode()
    incidents = _try("Incidents", missing, lambda: fetch_incidents(terminal, None))
    if incidents is not None:
        yield "incidents.json", msgspec.json.encode(incidents)
    yield "version.txt", f"meshwatchctl {meshwatchd.__version__}\npython {sys.version}\n".encode()


def _try(what: str, missing: list[str], ask: Callable[[], _Answer]) -> _Answer | None:
    try:
        return ask()
    except (ControlError, DecodeError) as error:
        missing.append(f"daemon: {what}: {error}")
        return None


def _read(config: Path, state: Path, missing: list[str], learn: Callable[[Settings], None]) -> Iterator[Part]:
    """The configuration as it is in force, and the event files; never a file of keys."""
    from meshwatchd.config.dump import dump_effective  # noqa: PLC0415 - only this command reads configurations
    from meshwatchd.config.load import load  # noqa: PLC0415 - as above

    try:
        settings = load(config)
        learn(settings)
        yield "meshwatchd.toml", dump_effective(settings).encode()
    except (ConfigError, OSError) as error:
        missing.append(f"configuration: {error}")
    for number in range(GENERATIONS):
        path = state / (f"{FILE_NAME}.{number}" if number else FILE_NAME)
        if number == 0 or path.exists():
            yield from _file(path, path.name, missing)


def _host(missing: list[str]) -> Iterator[Part]:
    for path in _HOST:
        yield from _file(path, "host" + str(path).replace("/", "-"), missing)


def _file(path: Path, name: str, missing: list[str]) -> Iterator[Part]:
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(0, size - MAX_FILE_BYTES))
            # Files of /proc have no size, and those of sysctl take no large buffer.
            data = file.read(min(size, MAX_FILE_BYTES) or _PROC_BYTES)
    except OSError as error:
        missing.append(f"{path}: {error.strerror or error}")
        return
    # Where the middle of a file begins there is half a line.
    yield name, data.partition(b"\n")[2] if size > MAX_FILE_BYTES else data


def _write(path: Path, parts: list[Part]) -> None:
    """Readable by whoever made it alone."""
    folder = path.name.removesuffix(".tar.gz")
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in parts:
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time_ns() // 10**9), 0o600
            archive.addfile(entry, io.BytesIO(data))
