"""Every setting of meshwatchd-kube with its default and the reason for it; durations as in meshwatchd.toml."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from meshwatchd.model.setting_types import AbsolutePath, Duration, Name, OptionalPath
from meshwatchd.model.units import HOUR, MINUTE, SECOND

CONFIG_FILE = "/etc/meshwatchd/kube.toml"

_Seconds = Annotated[Duration, Meta(ge=SECOND, le=24 * HOUR)]
_Brief = Annotated[Duration, Meta(ge=SECOND, le=3 * MINUTE, description="a pin lasts for ten minutes")]
_Share = Annotated[int, Meta(ge=1, le=1000)]


class Mode(StrEnum):
    """How far a part may go: nothing, requests that change nothing (`dryRun=All`), or real ones."""

    OFF = "off"
    DRY_RUN = "dry-run"
    ENFORCE = "enforce"


class LeaderKind(StrEnum):
    """What makes a node the leader of its location."""

    KILO = "kilo"
    SUBMARINER = "submariner"
    ANTREA = "antrea"
    HOOK = "hook"


class DaemonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The meshwatchd on this node.

    Attributes:
        socket: its control socket. Root and members of the group meshwatch-operators may hold traffic there; others can
            promote and taint all the same.
        read_interval: between two looks at its status; nothing here is decided within less than half a minute.
    """

    socket: AbsolutePath = "/run/meshwatchd/control.sock"
    read_interval: Annotated[Duration, Meta(ge=SECOND // 5, le=MINUTE)] = 5 * SECOND


class ApiSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The Kubernetes API.

    Attributes:
        kubeconfig: a file; empty for the service account of the pod.
        namespace: of the Lease.
        timeout: of one request. An API that needs longer is no ground to decide on.
        stale_after: without a word from the API for so long nothing is written; it sends a bookmark each minute.
    """

    kubeconfig: OptionalPath = ""
    namespace: Name = "kube-system"
    timeout: Annotated[Duration, Meta(ge=SECOND // 5, le=MINUTE)] = 5 * SECOND
    stale_after: _Seconds = 2 * MINUTE


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who of all processes writes.

    Attributes:
        name: of the Lease.
        duration: after so long without renewal another one takes it; a third of it is between renewals.
    """

    name: Name = "meshwatchd-kube"
    duration: Annotated[Duration, Meta(ge=3 * SECOND, le=10 * MINUTE)] = 30 * SECOND


class PromotionSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another leader for a location whose leader is broken.

    Attributes:
        mode: what may be done.
        kind: what makes a leader. "submariner" and "antrea" are for clusters that Kilo joins: on a mesh of their own
            nobody stands by, so no failover stands and no leader is changed.
        hook: the program for kind = "hook"; it gets location, former leader and successor as arguments.
        promote_after: so long must a failover have stood, with the daemons of both sides agreeing on the leader that is
            broken.
        demote_after: so long must the former leader be without fault before it leads again; "0s" for never by itself.
        detour_wait: so long is waited for traffic to be on a path that the change does not touch, and afterwards for
            the mesh to follow. Where no path is good enough the change is made all the same.
        settle_wait: traffic stays on that path for so long after the change. Daemons take the new mesh over one by
            one; the last of six in the laboratory did after 12 s, and flows were lost where traffic came home first.
        per_day: changes of leaders within a day, there and back; more is a fault of something else.
        report_age: a report of another node that is older counts as none; nodes repeat theirs each half minute.
    """

    mode: Mode = Mode.OFF
    kind: LeaderKind = LeaderKind.KILO
    hook: OptionalPath = ""
    promote_after: _Seconds = 5 * MINUTE
    demote_after: Annotated[Duration, Meta(ge=0, le=24 * HOUR)] = 30 * MINUTE
    detour_wait: _Brief = 30 * SECOND
    settle_wait: _Brief = 30 * SECOND
    per_day: _Share = 4
    report_age: _Seconds = 90 * SECOND


class GatingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nodes whose overlay is broken: conditions, then a taint.

    Attributes:
        mode: what may be done.
        reporters: so many other nodes must name the node; one that names itself counts like all of them.
        taint_after: so long must they have named it.
        untaint_after: so long must nobody have named it.
        effect: of the taint; "NoExecute" evicts what runs there.
        max_tainted: nodes with our taint at any time, of all locations.
        max_share: likewise of the nodes of one location, as its divisor: 3 is a third, rounded down.
        cordon: mark the node as unschedulable instead, as `kubectl cordon` does.
    """

    mode: Mode = Mode.OFF
    reporters: _Share = 2
    taint_after: _Seconds = 2 * MINUTE
    untaint_after: _Seconds = 5 * MINUTE
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    max_tainted: _Share = 3
    max_share: Annotated[int, Meta(ge=1, le=100)] = 3
    cordon: bool = False


class DrainSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kubectl drain` and `kubectl cordon` of this process's own node.

    Attributes:
        follow: drain the daemon too, so that traffic leaves the node before it goes.
    """

    follow: bool = False


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    daemon: DaemonSettings = DaemonSettings()
    api: ApiSettings = ApiSettings()
    lease: LeaseSettings = LeaseSettings()
    promotion: PromotionSettings = PromotionSettings()
    gating: GatingSettings = GatingSettings()
    drain: DrainSettings = DrainSettings()
