"""One node as profiles see it, written down for their tests: `scripts/snapshot-capture`.

Reads what the agent would read, changes nothing, and needs no daemon. Keys are replaced by numbers, so that equal keys
stay equal; addresses, names and MACs are kept, since they are what recognition rests on.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.endpoint_lookup import EndpointLookups
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.sources import SourceReader, plugins
from meshwatchd.adapters.wireguard.poll import Poll
from meshwatchd.config.load import load
from meshwatchd.model.decoding import Door, decode_json
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.errors import MeshwatchError
from meshwatchd.model.ids import NodeName
from meshwatchd.model.settings import Settings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import compose

EXIT_OK, EXIT_FAILURE = 0, 1

_KEY: Final = re.compile(r"[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=")
"""Base64 of 32 bytes; its last character has two bits that are zero."""


class Capture(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a profile's look is given, and what came out.

    Attributes:
        view: what the profiles of that day made of it; to be checked by a person who knows the node.
    """

    node: NodeName
    snapshot: Snapshot
    sources: Sources
    view: LocalView


async def capture(settings: Settings, node: NodeName, reader: SourceReader | None = None) -> Capture:
    """Read this node once.

    Raises:
        MeshwatchError: the kernel cannot be read.
    """
    dumper = Dumper()
    try:
        shown = await Mirror(dumper, settings.kernel, settings.mesh, _is_not_judged).snapshot()
    finally:
        dumper.close()
    tunnels = await Poll().states(shown.links)
    with contextlib.closing(EndpointLookups()) as lookups:
        snapshot = lookups.add(msgspec.structs.replace(shown, wireguard=tunnels))
    sources = await (reader or SourceReader(uids=settings.discovery.source_uids)).refresh()
    view = compose.look(snapshot, sources, settings.mesh, node, looks=plugins.load().looks)
    return Capture(node=node, snapshot=snapshot, sources=sources, view=view)


def render(captured: Capture) -> str:
    """A capture as JSON for people and tests, without keys."""
    text = msgspec.json.format(msgspec.json.encode(captured), indent=1).decode()
    known: dict[str, str] = {}
    return _KEY.sub(lambda match: known.setdefault(match[0], f"key-{len(known) + 1}"), text) + "\n"


def parse(data: bytes) -> Capture:
    """A capture that was rendered.

    Raises:
        DecodeError: it is none.
    """
    return decode_json(data, Capture, Door("capture"))


async def _is_not_judged(link: Link) -> bool:
    """Whose a device with our prefix is: nothing is changed here, so nobody need know."""
    del link
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Write this node's capture; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="snapshot-capture", description="Write what meshwatchd's profiles see of this node as JSON, without keys."
    )
    parser.add_argument("--config", type=Path, help="the daemon's configuration; without it, all is as by default")
    parser.add_argument("--node", help="this node's name; by default the configuration's, or the host's")
    parser.add_argument("--output", type=Path, help="a file; by default it is written to standard output")
    options = parser.parse_args(arguments)
    try:
        settings = load(options.config) if options.config else Settings()
        node = NodeName(options.node or settings.daemon.node or socket.gethostname())
        text = render(asyncio.run(capture(settings, node)))
        if options.output is None:
            sys.stdout.write(text)
        else:
            options.output.write_text(text, encoding="utf-8")
    except (MeshwatchError, OSError) as error:
        sys.stderr.write(f"snapshot-capture: {error}\n")
        return EXIT_FAILURE
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
