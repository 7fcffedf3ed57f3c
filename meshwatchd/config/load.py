"""Read the configuration file, or say in one line what to correct in it."""

from __future__ import annotations

import itertools
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from meshwatchd.config.canary_presets import write_out
from meshwatchd.config.check_mesh import check_mesh
from meshwatchd.config.relations import check_relations
from meshwatchd.config.shape import Kind, ShapeError, shape
from meshwatchd.config.values import Finding
from meshwatchd.model.decoding import FAILURES
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import CONFIG_FILE, Settings

DEFAULT_PATH = Path(CONFIG_FILE)

_POSITION = re.compile(r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)")
_SHOWN_CHARACTERS = 60
_MAX_BYTES = 4 * 1024 * 1024
"""Ten times a mesh of a thousand declared nodes; what is longer is some other file."""

_SYNTAX_REMEDY = 'correct it: text stands in quotes, as in mode = "enforce"'
_SYNTAX_REMEDIES = (
    ("overwrite", "write each key once"),
    ("twice", "write each section once, and lists of sections with two brackets: [[mesh.node]]"),
    ("table declaration", "write sections as [probe], lists of sections as [[mesh.node]]"),
)


def load(path: Path) -> Settings:
    """Read, convert and check a configuration file.

    Returns:
        settings whose `daemon.node` is filled in, and whose mesh `build_mesh` accepts or is empty.

    Raises:
        ConfigError: the first thing wrong, with the file, the key's path and the remedy.
    """
    settings = _name_node(read(path, Settings))
    finding = next(itertools.chain(check_relations(settings), check_mesh(settings)), None)
    if finding is not None:
        raise _error(path, finding)
    return settings


def read(path: Path, kind: type[Kind]) -> Kind:
    """Read and convert a file of settings of any kind, such as those of a program beside the daemon.

    Raises:
        ConfigError: as for `load`.
    """
    document = _parse(path)
    try:
        return shape(write_out(document), kind)
    except ShapeError as error:
        raise _error(path, error.finding) from error


def unreadable(path: Path, reason: str) -> ConfigError:
    """What to say of a file that the service's user cannot read, who is not root."""
    remedy = f"run: chmod a+r {path}, and look at its folder (it holds no secret)"
    return ConfigError(str(path), "", f"cannot be read: {reason}", remedy)


def _error(path: Path, finding: Finding) -> ConfigError:
    return ConfigError(str(path), finding.key, finding.problem, finding.remedy)


def _parse(path: Path) -> Mapping[str, object]:
    try:
        # Some editors put a byte order mark in front of UTF-8.
        text = _read(path).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(
            str(path),
            "",
            "there is no such file",
            "write it (see the sample meshwatchd.toml) or give --config",
        ) from error
    except OSError as error:
        raise unreadable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), "", f"byte {error.start} is not UTF-8", "save the file in UTF-8") from error
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ConfigError(str(path), "", "lists are nested too deeply", "close the brackets of each list") from error
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from error
    except FAILURES as error:
        raise ConfigError(str(path), "", f"is no TOML: {error}", _SYNTAX_REMEDY) from error


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ConfigError(
            str(path), "", f"is longer than {_MAX_BYTES} bytes", "name the configuration file with --config"
        )
    return content


def _syntax_error(path: Path, text: str, message: str) -> ConfigError:
    """Name the line: tomllib tells it in the text of its message only."""
    lines = text.splitlines() or [""]
    match = _POSITION.fullmatch(message)
    what, line = (match["what"], match["line"]) if match else (message, None)
    number = int(line) if line else len(lines)
    place = f"line {number}" if match is None or match["column"] is None else f"line {number}, column {match['column']}"
    shown = lines[min(number, len(lines)) - 1].strip()[:_SHOWN_CHARACTERS]
    remedy = next((advice for sign, advice in _SYNTAX_REMEDIES if sign in what), _SYNTAX_REMEDY)
    return ConfigError(str(path), place, f"{what[:1].lower()}{what[1:]} in `{shown}`", remedy)


def _name_node(settings: Settings) -> Settings:
    """Fill in the host name, or its first label where only that is the name of a node."""
    if settings.daemon.node:
        return settings
    host = socket.gethostname()
    short = host.partition(".")[0]
    names = {node.name for node in settings.mesh.node}
    node = short if host not in names and short in names else host
    daemon = msgspec.structs.replace(settings.daemon, node=node)
    return msgspec.structs.replace(settings, daemon=daemon)
