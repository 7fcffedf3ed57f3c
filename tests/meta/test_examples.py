"""Commands that documents and examples tell people to run: each is one that the programs take."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from meshwatchd.cli.main import Terminal, cli
from meshwatchd.cli.text import paint_nothing
from meshwatchd.runtime.main import make_parser
from tests.meta.tree import ROOT, name_of

EXAMPLES = sorted((ROOT / "systemd/examples").iterdir())
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# At the beginning of a line or behind a prompt, `until`, `&&` and the like, up to what ends a command in a shell.
COMMAND = re.compile(
    r"(?:^|[#$;|]|&&|\|\||\b(?:until|if|command:|sudo|\"root@\$node\")) *(meshwatchctl|meshwatchd) +([^|;&#>'\n]*)",
    re.MULTILINE,
)
TERMINAL = Terminal(socket=Path("/nowhere"), is_json=False, paint=paint_nothing)
CONSOLE = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands(text: str) -> list[tuple[str, str]]:
    """Program and arguments of each."""
    return [(match[1], match[2].strip()) for match in COMMAND.finditer(text)]


def complaint(program: str, arguments: str) -> str:
    """What the program says of arguments that it does not take; nothing of others. It is not run."""
    words = shlex.split(arguments)
    if program == "meshwatchd":
        try:
            make_parser().parse_args(words)
        except SystemExit as ended:
            return f"exit status {ended.code}" if ended.code else ""
        return ""
    try:
        outer = cli.make_context("meshwatchctl", words, obj=TERMINAL)
        name, command, rest = cli.resolve_command(outer, [*outer._protected_args, *outer.args])
        assert command is not None
        command.make_context(name, rest, parent=outer)
    except click.exceptions.Exit:
        return ""
    except click.ClickException as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("path", EXAMPLES, ids=name_of)
def test_an_example_asks_for_what_the_commands_take(path):
    """Both asked for a drain of `10m`, which is no duration: they ended at the first node where a daemon ran."""
    found = commands(path.read_text(encoding="utf-8"))

    assert {"meshwatchctl", "meshwatchd"} == {program for program, _ in found}
    assert [] == [f"{words}: {said}" for program, words in found if (said := complaint(program, words))]


def test_documents_show_what_the_commands_take():
    """What is behind a prompt; a word in capitals stands for something, so those lines are left out."""
    shown = [
        (name_of(path), program, words)
        for path in DOCUMENTS
        for block in CONSOLE.findall(path.read_text(encoding="utf-8"))
        for program, words in commands(block)
        if not re.search(r"\b[A-Z]{2,}|\.\.\.", words)
    ]

    assert len(shown) > 10
    assert [] == [f"{name}: {words}: {said}" for name, program, words in shown if (said := complaint(program, words))]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("drain --for 10m", "is no duration"),
        ("drian", "there is no command drian"),
        ("status --nothing", "No such option"),
    ],
)
def test_what_is_not_taken_is_found(words, said):
    """The rule itself: a value, a command, an option."""
    assert said in complaint("meshwatchctl", words)
