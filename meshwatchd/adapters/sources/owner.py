"""Who listens where a source is asked: any user may listen where no agent does, and root's word alone moves traffic.

It is looked at once the connection stands and before anything is asked. A socket that somebody has closed since, to
hide whose it was, is listed no more, and nobody's word is not believed.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Collection
from pathlib import Path
from typing import Final

from pyroute2.netlink.diag import DiagSocket
from pyroute2.netlink.exceptions import NetlinkError

from meshwatchd.adapters.socket_options import read_peer
from meshwatchd.model.errors import KernelError

TCP_LISTEN: Final = 1 << 10
"""include/net/tcp_states.h: TCPF_LISTEN."""


def believed(uids: Collection[int] = ()) -> frozenset[int]:
    """Users whose programs are asked: root, this process's own, and those given."""
    return frozenset((0, os.geteuid(), *uids))


async def check_owner(
    address: tuple[str, int] | Path, connection: socket.socket, source: str, uids: Collection[int]
) -> None:
    """Return if what listens belongs to users that are believed.

    Raises:
        KernelError: EPERM: it belongs to another user, or nobody listens any more; others: the kernel does not tell.
    """
    if isinstance(address, Path):
        place, owners = str(address), {read_peer(connection)[1]}
    else:
        place = f"{address[0]}:{address[1]}"
        owners = await asyncio.to_thread(_listeners, address[1], source)
    strangers = owners.difference(uids)
    if strangers or not owners:
        whose = f"belongs to user {min(strangers)}, neither root nor known" if strangers else "is nobody's that listens"
        remedy = "it is not asked; stop what listens there, or name its user in discovery.source_uids"
        raise KernelError(f"ask {source}", errno.EPERM, f"the socket at {place} {whose}: {remedy}")


def _listeners(port: int, source: str) -> set[int]:
    """Owners of all sockets that listen at a TCP port, at whatever address: one of them is connected to.

    Source: linux/inet_diag.h; inet_csk_diag_fill() in net/ipv4/inet_diag.c gives the user who made the socket.
    """
    try:
        with DiagSocket() as kernel:
            kernel.bind()
            found = [
                each
                for family in (socket.AF_INET, socket.AF_INET6)
                for each in kernel.get_sock_stats(family=family, states=TCP_LISTEN, sport=port)
            ]
    except (NetlinkError, OSError) as error:
        code = error.code if isinstance(error, NetlinkError) else error.errno
        raise KernelError(f"ask {source}", code or 0, "the kernel does not tell who listens there") from error
    return {int(each["idiag_uid"]) for each in found if each["idiag_sport"] == port}
