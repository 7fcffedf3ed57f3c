"""The configuration of a standby link as a file, the record of what was last applied.

`wg setconf` accepts it as it is, so the keys that only wg-quick knows are comments.
"""

from __future__ import annotations

import io
from pathlib import Path

from wgconfig import WGConfig

from meshwatchd.adapters.wireguard.state import LinkConfig
from meshwatchd.adapters.wireguard.uapi import render_endpoint


def render(device: str, peer: str, config: LinkConfig) -> str:
    """The file's text.

    Args:
        device: the device it is for.
        peer: the name of the node at the other end.
        config: what to write.
    """
    file = WGConfig()
    file.initialize_file(f"# {device}, the standby link to {peer}; written by meshwatchd, changes are overwritten")
    file.add_attr(None, "PrivateKey", config.private_key)
    file.add_attr(None, "ListenPort", config.listen_port)
    file.add_peer(config.peer_public_key, f"# {peer}")
    file.add_attr(config.peer_public_key, "AllowedIPs", ", ".join(config.allowed_ips))
    if config.endpoint is not None:
        file.add_attr(config.peer_public_key, "Endpoint", render_endpoint(*config.endpoint))
    file.add_attr(config.peer_public_key, "PersistentKeepalive", config.keepalive_s)
    text = io.StringIO()
    file.write_to_fileobj(text)
    return f"# MTU = {config.mtu_bytes}\n# Table = off\n# Address = none, on purpose\n{text.getvalue()}"


def read(path: Path) -> str:
    """The file's text, empty when there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
