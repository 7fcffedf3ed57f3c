"""meshwatchctl: see what meshwatchd sees, and tell it what to do.

Commands are imported when they are used: an operator in a hurry waits for nothing that is not needed.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

import meshwatchd
from meshwatchd.cli.text import Paint, paint_ansi, paint_nothing
from meshwatchd.model.errors import ControlError, DecodeError

if TYPE_CHECKING:
    from meshwatchd.cli.client import Client

EXIT_UNREACHABLE = 3
EXIT_USAGE = 64
EXIT_UNWRITTEN = 74
"""EX_IOERR of sysexits.h."""
EXIT_INTERRUPTED = 130
DEFAULT_SOCKET = "/run/meshwatchd/control.sock"

_COMMANDS = {
    "status": ("command_status", "which paths work, which one is used"),
    "top": ("command_top", "this node, live"),
    "explain": ("command_explain", "why, what was done about it, what comes next"),
    "matrix": ("command_matrix", "what every node reports about every other one"),
    "doctor": ("command_doctor", "what is wrong with the set-up of this node, and how to mend it"),
    "ping": ("command_ping", "each layer to a node, live"),
    "path": ("command_path", "which way packets to an address go from here"),
    "service": ("command_service", "is it discovery or datapath, for a service of several clusters"),
    "topology": ("command_topology", "which mesh this node is in, what it is there, and why"),
    "events": ("command_events", "what happened"),
    "incidents": ("command_incidents", "what went wrong so far, with the outage measured"),
    "report": ("command_report", "a page about the mesh or an incident, with pictures"),
    "bisect": ("command_bisect", "where exactly packets to a node die"),
    "wait": ("command_wait", "until this node watches its mesh, or until all is well"),
    "config": ("command_config", "the configuration in force, and what a setting means"),
    "failover": ("command_traffic", "move traffic to a standby path"),
    "failback": ("command_traffic", "move traffic back to the primary path"),
    "confirm": ("command_orders", "keep what `failover --confirm-within` has done"),
    "pause": ("command_orders", "suspend automatic failover for a while"),
    "resume": ("command_orders", "end a pause"),
    "drain": ("command_orders", "take this node out of service without losing a packet"),
    "undrain": ("command_orders", "put this node into service again"),
    "pin": ("command_orders", "move traffic to a standby path, and come back to that one"),
    "unpin": ("command_orders", "end a pin"),
    "forget": ("command_forget", "accept the next identity of a node that was reinstalled"),
    "replay": ("command_replay", "decide once more, by the journal of an engine"),
    "mtu": ("command_mtu", "what size each layer of each path carries, and what to configure"),
    "bundle": ("command_bundle", "one archive for a bug report, without secrets"),
    "stamp": ("command_stamp", "measure the way to a STAMP reflector of any maker"),
    "sweep": ("command_sweep", "remove everything of meshwatchd from the kernel"),
    "rollback": ("command_rollback", "put the version before the last installation in force again"),
    "version": ("command_version", "of this program and of the daemon"),
}
"""Each command's module and what it is for, in the order in which a person needs them."""


class Terminal(NamedTuple):
    """How to reach the daemon, and how to answer the person.

    Attributes:
        is_json: for programs instead of people.
    """

    socket: Path
    is_json: bool
    paint: Paint

    @property
    def client(self) -> Client:
        """A client of the daemon."""
        from meshwatchd.cli.client import Client  # noqa: PLC0415 - help needs none

        return Client(self.socket)

    def answer(self, document: object, text: Callable[[], str]) -> None:
        """Write one line of JSON for programs, or the text for a person."""
        import msgspec  # noqa: PLC0415 - as above

        sys.stdout.write(msgspec.json.encode(document).decode() + "\n" if self.is_json else text())


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"meshwatchd.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        if not any("--json" in option.opts for option in command.params):
            command.params.append(_json_option())
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command, or name the nearest one."""
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            import difflib  # noqa: PLC0415 - only who mistypes waits for it

            near = difflib.get_close_matches(args[0], _COMMANDS, n=2, cutoff=0.7)
            hint = f"did you mean {' or '.join(near)}?" if near else "`meshwatchctl --help` lists all commands"
            ctx.fail(f"there is no command {args[0]}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, purpose) for name, (_, purpose) in _COMMANDS.items()])


def _json_option() -> click.Option:
    """Behind each command as well, which is where hands put it."""

    def answer_in_json(context: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
        if is_wanted and not context.resilient_parsing:
            context.obj = context.obj._replace(is_json=True)

    return click.Option(
        ["--json"], is_flag=True, expose_value=False, callback=answer_in_json, help="Answer in JSON, for programs."
    )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(meshwatchd.__version__, prog_name="meshwatchctl", message="%(prog)s %(version)s")
@click.option("--json", "is_json", is_flag=True, help="Answer in JSON, for programs; may follow the command as well.")
@click.option(
    "--socket",
    # Who may not open it hears so from the client, with the group to join: that is no wrong usage.
    type=click.Path(path_type=Path, readable=False),
    default=DEFAULT_SOCKET,
    envvar="MESHWATCH_SOCKET",
    show_default=True,
    show_envvar=True,
    help="The daemon's control socket.",
)
@click.pass_context
def cli(context: click.Context, *, is_json: bool, socket: Path) -> None:
    """See what meshwatchd on this node sees, and tell it what to do.

    Exit status: 0 all is well, 1 degraded, 2 critical, 3 the daemon cannot be asked,
    4 nothing is watched, 64 wrong usage, 77 not allowed.
    """
    is_coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    context.obj = Terminal(socket=socket, is_json=is_json, paint=paint_ansi if is_coloured else paint_nothing)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    _prepare_streams()
    stdout = sys.stdout
    try:
        status = cli.main(args=arguments, prog_name="meshwatchctl", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        _complain(error.show)
        return EXIT_USAGE
    except ControlError as error:
        complaint = f"meshwatchctl: {error}"
        _complain(lambda: print(complaint, file=sys.stderr))
        return error.code
    except DecodeError as error:
        # Never 1 or 2, which are states of the mesh.
        text = f"meshwatchctl: {error.source} is not understood ({error.reason}); {error.remedy}"
        _complain(lambda: print(text, file=sys.stderr))
        return EXIT_UNREACHABLE
    except UnicodeEncodeError as error:
        # Python keeps bytes of an argument that it cannot decode as surrogates, which nothing encodes.
        text = f"meshwatchctl: an argument is not UTF-8: {error.object!a}"
        _complain(lambda: print(text, file=sys.stderr))
        return EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _be_quiet(0)
    except SystemExit:
        if sys.stdout is stdout:
            raise  # the end of shell completion
        # click has met the broken pipe first, and wrapped the stream.
        sys.stdout = stdout
        return _be_quiet(0)
    except OSError as error:
        what = error.filename or "the answer cannot be written"
        problem = f"meshwatchctl: {what}: {error.strerror or error}"
        _complain(lambda: print(problem, file=sys.stderr))
        return _be_quiet(EXIT_UNWRITTEN)
    return status if isinstance(status, int) else 0


def _prepare_streams() -> None:
    """Have both, and let no sign that a terminal lacks end the program."""
    if sys.stdout is None:
        # Closed by whoever started us (>&-): nobody reads, and the exit status still tells.
        sys.stdout = io.StringIO()
    if sys.stderr is None:
        sys.stderr = io.StringIO()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that has no such sign shows another one.
            stream.reconfigure(errors="replace")


def _complain(show: Callable[[], None]) -> None:
    """Say what is wrong; the exit status says it where nobody reads, as behind `2>&1 | head -1`."""
    try:
        show()
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def _be_quiet(status: int) -> int:
    """Whoever read us has seen enough or has no room: what is buffered is not written on the way out either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


if __name__ == "__main__":
    sys.exit(main())
