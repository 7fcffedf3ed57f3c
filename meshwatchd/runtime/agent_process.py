"""The agent's process, from the engine's call to its exit status.

The engine starts it as `python -P -m meshwatchd.runtime.agent_process --link-fd N --boot-fd M`. It runs on what the
engine runs on, whatever has become of the file since.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    from meshwatchd.runtime.lean import leave_out, load_parts_of

    leave_out("rich", "typing_extensions")  # of structlog and msgspec: 5 MiB
    load_parts_of("pyroute2")  # its face loads all of it: 5.5 MiB

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from meshwatchd.adapters.process import give_way
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.runtime.agent import Agent
from meshwatchd.runtime.boot import Boot, Refusal, read_shared
from meshwatchd.runtime.link import agent_end
from meshwatchd.runtime.logging import make_log, report_refusals
from meshwatchd.runtime.supervise import succeed

EXIT_OK, EXIT_FAILURE = 0, 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent; returns its exit status."""
    # By the engine alone; argparse would stay in memory.
    _, link_fd, _, boot_fd = sys.argv[1:] if arguments is None else arguments
    os.set_inheritable(int(link_fd), False)  # a wireguard-go that held it would hide our end from the engine
    boot = read_shared(int(boot_fd))
    if isinstance(boot, Refusal):
        sys.stderr.write(f"{boot.reason}\n")
        return EXIT_FAILURE
    succeed(Path(boot.settings.daemon.runtime_dir))
    give_way()
    return asyncio.run(_run(boot, int(link_fd)))


async def _run(boot: Boot, link_fd: int) -> int:
    log, link = report_refusals(make_log(boot.settings.daemon.log_format)), agent_end(link_fd, Counter())
    status = EXIT_OK
    try:
        await Agent(boot.settings, link, log, config=Path(boot.config), secrets=boot.secrets).run()
    except* MeshwatchError as group:
        status = EXIT_FAILURE
        for error in group.exceptions:
            log.error("agent.failed", error=str(error))  # noqa: TRY400  # the text says it all
    return status


if __name__ == "__main__":
    sys.exit(main())
