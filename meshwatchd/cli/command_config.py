"""`meshwatchctl config`: the configuration in force, and what a setting means; needs no daemon."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from meshwatchd.cli.main import Terminal
from meshwatchd.cli.text import Paint
from meshwatchd.config.explain import Setting, find_settings, list_settings
from meshwatchd.config.load import DEFAULT_PATH, load
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import Settings

EXIT_CONFIG = 2
_WIDTH = 100


@click.command("config")
@click.argument("action", type=click.Choice(["show", "explain"]))
@click.argument("key", default="")
@click.option("--config", "path", type=click.Path(path_type=Path), help=f"The file (default: {DEFAULT_PATH}).")
@click.pass_obj
def config(terminal: Terminal, *, action: str, key: str, path: Path | None) -> int:
    """Show the configuration in force, or explain what KEY means: a setting, a section, or without KEY all of them.

    Without a file the defaults are shown. Exit status: 0 ok, 2 the file cannot be used.
    """
    try:
        settings = Settings() if path is None and not DEFAULT_PATH.exists() else load(path or DEFAULT_PATH)
    except ConfigError as error:
        click.echo(f"meshwatchctl: {error}", err=True)
        return EXIT_CONFIG
    if key:
        found, near = find_settings(settings, key)
        if not found:
            hint = f"; did you mean {near}?" if near else "; `meshwatchctl config explain` has all of them"
            raise click.UsageError(f"there is no setting {key}{hint}")
    else:
        found = list(list_settings(settings))
    if action == "show":
        terminal.answer(found if key else settings, lambda: _show(settings, found if key else None))
    else:
        terminal.answer(
            found, lambda: "".join(f"{line}\n" for each in found for line in _explain(each, terminal.paint))
        )
    return 0


def _show(settings: Settings, found: list[Setting] | None) -> str:
    """The file that would load to these settings, or single lines of it."""
    if found is None:
        from meshwatchd.config.dump import dump_effective  # noqa: PLC0415 - inspect and tomli-w are slow to import

        return dump_effective(settings)
    return "".join(f"{each.key} = {_value(each.value)}\n" for each in found)


def _explain(setting: Setting, paint: Paint) -> Iterator[str]:
    changed = "" if setting.value == setting.default else f" (default {_value(setting.default)})"
    yield f"{paint(setting.key, 'strong')} = {_value(setting.value)}{changed}"
    words = [setting.about] if setting.about else []
    words += [f"One of {', '.join(setting.choices)}."] if setting.choices else []
    yield from textwrap.wrap(
        " ".join(words), _WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
    )


def _value(value: object) -> str:
    return msgspec.json.encode(value).decode()
