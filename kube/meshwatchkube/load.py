"""Read the configuration file of meshwatchd-kube."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from meshwatchd.config.load import read
from meshwatchd.config.values import Finding
from meshwatchd.model.errors import ConfigError
from meshwatchkube.settings import LeaderKind, Mode, Settings

_WITHOUT_STANDBY = (LeaderKind.SUBMARINER, LeaderKind.ANTREA)
"""Kinds whose own meshes have `Trait.WITHOUT_STANDBY` (`meshwatchd.model.mesh_profile`)."""


def load(path: Path) -> Settings:
    """Read and check a file.

    Raises:
        ConfigError: the first thing wrong, with the file, the key's path and the remedy.
    """
    settings = read(path, Settings)
    finding = next(_check(settings), None)
    if finding is not None:
        raise ConfigError(str(path), finding.key, finding.problem, finding.remedy)
    return settings


def remarks(settings: Settings) -> Iterator[Finding]:
    """What can be used and may have no effect."""
    promotion = settings.promotion
    if promotion.mode is not Mode.OFF and promotion.kind in _WITHOUT_STANDBY:
        yield Finding(
            key="promotion.kind",
            problem=f'"{promotion.kind}" changes no leader on a mesh of {promotion.kind}\'s own, where nobody stands by'
            " and so no failover stands",
            remedy="keep it where Kilo joins such a cluster",
        )


def _check(settings: Settings) -> Iterator[Finding]:
    promotion = settings.promotion
    if promotion.kind is LeaderKind.HOOK and promotion.mode is not Mode.OFF and not promotion.hook:
        yield Finding(key="promotion.hook", problem="no program is named", remedy='write hook = "/path/to/program"')
    if settings.lease.duration <= settings.api.timeout:
        yield Finding(
            key="lease.duration",
            problem="is no longer than api.timeout, so one slow answer would lose the lease",
            remedy="write three times api.timeout or more",
        )
    if settings.lease.duration // 3 + settings.daemon.read_interval > promotion.detour_wait // 2:
        yield Finding(
            key="promotion.detour_wait",
            problem="is too short for relays to read the Lease, each third of lease.duration, and to pin traffic",
            remedy="write twice that and daemon.read_interval, or more",
        )
    if settings.gating.cordon and settings.gating.effect == "NoExecute":
        yield Finding(
            key="gating.cordon",
            problem="has no effect of its own, and gating.effect asks for NoExecute",
            remedy="write one of the two",
        )
