"""Facts about the daemon's own two processes and their configuration."""

from __future__ import annotations

import msgspec


class ClockStalled(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """This process was not scheduled, `count` times since the last such fact; `late_ns` is the worst of them."""

    late_ns: int
    count: int = 1


class AgentRestarted(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The agent process died, or was killed for its silence, and was started again; see AgentLost."""

    exit_status: int
    silent_ns: int = 0


class ConfigReloaded(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The configuration was read again on SIGHUP: its keys are in use.

    Attributes:
        signing_key_id: of the secret that own probes are signed with; 0 where there is no mesh.
        needs_restart: dotted keys of the settings that differ and are not in force.
    """

    signing_key_id: int
    accepted_key_ids: tuple[int, ...]
    needs_restart: tuple[str, ...]


class ConfigRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact", tag=True):
    """The configuration was read again and cannot be used: what was in force stays."""

    reason: str
