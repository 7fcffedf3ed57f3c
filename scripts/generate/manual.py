"""Manual pages and shell completion, from the same definitions as --help."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator

import click
from click.shell_completion import get_completion_class

import meshwatchd
from meshwatchd.cli.main import cli
from meshwatchd.runtime.main import make_parser

PROGRAM = "meshwatchctl"
VARIABLE = "_MESHWATCHCTL_COMPLETE"

SHELLS = {
    "bash": "completions/bash/meshwatchctl",
    "zsh": "completions/zsh/_meshwatchctl",
    "fish": "completions/fish/meshwatchctl.fish",
}
"""Where `make install` copies them: share/bash-completion/completions, share/zsh/site-functions (on Debian
share/zsh/vendor-completions), and share/fish/vendor_completions.d."""


def completion(shell: str) -> str:
    """What a shell has to load to complete our commands."""
    kind = get_completion_class(shell)
    assert kind is not None, shell
    asked = kind(cli, {}, PROGRAM, VARIABLE)
    return (asked.source_template % asked.source_vars()).strip() + "\n"


def control_page() -> str:
    """meshwatchctl(1): every command with every option."""
    context = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    lines = [_title(PROGRAM, 1), ".SH NAME", f"{PROGRAM} \\- see what meshwatchd sees, and tell it what to do"]
    lines += [".SH SYNOPSIS", f".B {PROGRAM}", "[OPTIONS] COMMAND [ARGUMENTS]", ".SH DESCRIPTION"]
    lines += [*_prose(cli.help or ""), ".SH OPTIONS", *_options(cli, context), ".SH COMMANDS"]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context, **command.context_settings)
        usage = " ".join(command.collect_usage_pieces(inner))
        lines += [f".SS {_escape(name)}", f".B {PROGRAM} {_escape(name)}", _escape(usage), ".PP"]
        lines += [*_prose(command.help or ""), *_options(command, inner)]
    lines += [*_STATUS, *_FILES, ".SH SEE ALSO", ".BR meshwatchd (8)", ".PP", _DOCUMENTS]
    return "\n".join(lines) + "\n"


def daemon_page() -> str:
    """meshwatchd(8)."""
    parser = make_parser()
    lines = [_title("meshwatchd", 8), ".SH NAME", f"meshwatchd \\- {_escape(parser.description or '').rstrip('.')}"]
    lines += [".SH SYNOPSIS", ".B meshwatchd", "[OPTIONS]", ".SH OPTIONS"]
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(action.option_strings)
        argument = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        lines += [".TP", f"\\fB{_escape(names)}\\fR{_escape(argument)}", _escape(_help(action))]
    lines += [*_FILES, ".SH SEE ALSO", f".BR {PROGRAM} (1)", ".PP", _DOCUMENTS]
    return "\n".join(lines) + "\n"


_DOCUMENTS = "Concepts, faults, alerts, tuning and safety: /usr/share/doc/meshwatchd/docs/"
_STATUS = (
    ".SH EXIT STATUS",
    *(
        line
        for code, text in (
            ("0", "all is well"),
            ("1", "degraded: traffic flows, redundancy or quality is lost"),
            ("2", "critical: traffic is being lost"),
            ("3", "the daemon cannot be asked, or does not know"),
            ("4", "nothing is watched"),
            ("64", "wrong usage"),
            ("74", "the answer cannot be written"),
            ("77", "not allowed"),
        )
        for line in (".TP", f".B {code}", text)
    ),
)
_FILES = (
    ".SH FILES",
    *(
        line
        for path, text in (
            ("/etc/meshwatchd/meshwatchd.toml", "the configuration, each setting explained"),
            ("/etc/meshwatchd/mesh.key", "the key of the mesh"),
            ("/var/lib/meshwatchd/", "events, incidents, the node's own key, what is known of the mesh"),
            ("/run/meshwatchd/control.sock", "the control socket"),
        )
        for line in (".TP", f".I {path}", text)
    ),
)


def _title(name: str, section: int) -> str:
    return f'.TH {name.upper()} {section} "" "meshwatchd {meshwatchd.__version__}" "meshwatchd"'


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%(default)s", str(action.default))


def _prose(text: str) -> Iterator[str]:
    """Paragraphs with a request between each two: one in front of a section or a tag would have no text."""
    for place, paragraph in enumerate(inspect.cleandoc(text.replace("\b", "")).split("\n\n")):
        if place:
            yield ".PP"
        yield _escape(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and record[1]:
            names, text = record
            yield from (".TP", f"\\fB{_escape(names)}\\fR", _escape(text))


def _escape(text: str) -> str:
    """As roff takes it: a hyphen is a minus, and no line begins a request."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
