"""`python -m netnslab.backends`: a command or a shell in a guest of the vm backend; the guest's kernel."""

from __future__ import annotations

import argparse
import shlex
import sys

from netnslab.backends.debian_kernel import fetch, obtain
from netnslab.backends.model import BackendError
from netnslab.backends.shell import run_shell
from netnslab.backends.user_mode import run_in_user_mode
from netnslab.backends.vm import run_in_guest


def main() -> int:
    """The command line; the exit status of `run` is that of the command in the guest."""
    parser = argparse.ArgumentParser(prog="python -m netnslab.backends", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a command under a stock kernel in QEMU")
    run.add_argument("--timeout", type=float, default=240, metavar="S", help="seconds (default: %(default)s)")
    run.add_argument(
        "--timeless", action="store_true", help="under a kernel in which computing takes no time, instead of QEMU"
    )
    run.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    shell = actions.add_parser("shell", help="a shell under a stock kernel in QEMU, on this terminal")
    shell.add_argument("topology", nargs="?", help="the lab to bring up first")
    kernel = actions.add_parser("kernel", help="print the kernel image of the guest, fetching it if need be")
    kernel.add_argument("--refresh", action="store_true", help="fetch the distribution's current one")
    options = parser.parse_args()
    try:
        if options.action == "kernel":
            print((fetch() if options.refresh else obtain()).image)
            return 0
        if options.action == "shell":
            bring_up = f"{sys.executable} -m netnslab up {shlex.quote(options.topology)}"
            run_shell(bring_up if options.topology else "true")
            return 0
        command = options.command[1:] if options.command[:1] == ["--"] else options.command
        if not command:
            parser.error("which command?")
        if options.timeless:
            return run_in_user_mode(command, timeout_s=options.timeout).returncode
        return run_in_guest(command, timeout_s=options.timeout).returncode
    except KeyboardInterrupt:
        return 130
    except BackendError as error:
        print(f"netnslab: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
