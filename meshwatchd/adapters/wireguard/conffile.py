"""The configuration of a standby link as a file of wg-quick's, the record of what was last applied.

Whoever loads it by hand gets the very link: `wg-quick up /var/lib/meshwatchd/links/mw0.conf`. So what keeps the link
out of the way of traffic has to be in force and no comment: without "Table = off" wg-quick makes a route of each of
AllowedIPs, and all traffic of the other location would take the standby link. `wg-quick strip` is for `wg setconf`.
"""

from __future__ import annotations

import io

from wgconfig import WGConfig

from meshwatchd.adapters.wireguard.state import LinkConfig, render_endpoint


def render(device: str, peer: str, config: LinkConfig) -> str:
    """The file's text."""
    file = WGConfig()
    file.initialize_file(f"# {device}, the standby link to {peer}; written by meshwatchd, changes are overwritten")
    file.add_attr(None, "PrivateKey", config.private_key)
    file.add_attr(None, "ListenPort", config.listen_port)
    file.add_attr(None, "MTU", config.mtu_bytes)
    file.add_attr(None, "Table", "off")
    file.add_peer(config.peer_public_key, f"# {peer}")
    file.add_attr(config.peer_public_key, "AllowedIPs", ", ".join(config.allowed_ips))
    if config.endpoint is not None:
        file.add_attr(config.peer_public_key, "Endpoint", render_endpoint(*config.endpoint))
    file.add_attr(config.peer_public_key, "PersistentKeepalive", config.keepalive_s)
    text = io.StringIO()
    file.write_to_fileobj(text)
    return f"# It has no Address, on purpose.\n{text.getvalue()}"
