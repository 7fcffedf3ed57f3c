"""The mesh as a picture, as one node sees it: locations, relays, paths, and the layers on the way to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from meshwatchd.adapters.control.naming import name_path
from meshwatchd.cli.text import render_rtt
from meshwatchd.model.faults import CATALOGUE, Severity
from meshwatchd.model.ids import Layer
from meshwatchd.model.status import PairStatus, PathStatus, Status, path_rtt_ns

WIDTH = 960
_NODE_WIDTH, _NODE_HEIGHT, _GAP = 120, 34, 26
_HEAD = 64
_HOME_X, _LOCAL_X, _REMOTE_X, _FAR_X = 24, 282, 590, 816
_LANES = {Layer.UNDERLAY: 0.22, Layer.OVERLAY: 0.7, Layer.IPIP: 0.93}
"""What can break on the way to a relay of this location, and how far along the line its label is."""
_LABELS = (0.25, 0.35, 0.35, 0.42, 0.75, 0.65, 0.65, 0.58)
"""How far along its line the label of a path stands, by rank: no two of two relays at each end meet."""

COLOURS = {
    "good": "#2e7d32",
    "up": "#2e7d32",
    "suspect": "#b26a00",
    "down": "#c62828",
    "unknown": "#78909c",
    "unwatched": "#b0bec5",
    "init": "#b0bec5",
}
_SEVERITIES = {Severity.OK: "#2e7d32", Severity.WARNING: "#b26a00", Severity.CRITICAL: "#c62828"}

STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#263238}.dim{fill:#607d8b;font-size:11px}"
    ".label{paint-order:stroke;stroke:#fff;stroke-width:3px}"
    ".head{font-weight:600;font-size:15px}.node{fill:#eceff1;stroke:#90a4ae}.here{fill:#e3f2fd;stroke:#1565c0}"
    ".culprit{fill:#ffebee;stroke:#c62828;stroke-width:3}"
    ".place{fill:none;stroke:#cfd8dc;stroke-dasharray:4 3}"
)


class Broken(NamedTuple):
    """What is to be marked."""

    fault: str
    layer: str
    node: str


class _Place(NamedTuple):
    x: int
    y: int

    @property
    def left(self) -> tuple[int, int]:
        return self.x, self.y + _NODE_HEIGHT // 2

    @property
    def right(self) -> tuple[int, int]:
        return self.x + _NODE_WIDTH, self.y + _NODE_HEIGHT // 2


def draw_mesh(status: Status, broken: Broken | None = None) -> str:
    """An SVG with one band for each remote location; marked is what each verdict names, or what was broken in an
    incident.
    """
    bands: list[str] = []
    top = 8
    for pair in status.pairs:
        marked = broken or _broken(pair)
        height, parts = _draw_pair(status, pair, marked)
        bands.append(f'<g transform="translate(0,{top})">{"".join(parts)}</g>')
        top += height + 16
    if not bands:
        bands, top = ['<text x="24" y="40">nothing is watched from here</text>'], 64
    return f"{svg_head(top)}{''.join(bands)}</svg>\n"


def svg_head(height: int) -> str:
    """The beginning of a picture as wide as a page."""
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>'
        '<rect width="100%" height="100%" fill="#fff"/>'
    )


def _broken(pair: PairStatus) -> Broken | None:
    verdict = pair.verdict
    if verdict.severity is Severity.OK:
        return None
    return Broken(verdict.fault.value, verdict.layer.name.lower(), verdict.culprit)


def _draw_pair(status: Status, pair: PairStatus, broken: Broken | None) -> tuple[int, list[str]]:
    own_side = _own_side(status, pair)
    local, remote = (_unique(path.relays[side] for path in pair.paths) for side in (own_side, 1 - own_side))
    numbers = {path.number for path in pair.paths}
    far = _unique(each.peer for each in status.sessions if each.layer is Layer.RELAY and each.path in numbers)
    far = [name for name in far if name not in remote]
    rows = max(len(local), len(remote), len(far), 1)
    height = _HEAD + rows * (_NODE_HEIGHT + _GAP) + 26 + 15 * len(pair.paths)
    places = {
        **_column(remote, _REMOTE_X, rows),
        **_column(far, _FAR_X, rows),
        **_column(local, _LOCAL_X, rows),
    }
    if status.node not in local:
        places[status.node] = _column([status.node], _HOME_X, rows)[status.node]
    bottom = _HEAD + rows * (_NODE_HEIGHT + _GAP)
    parts = [*_title(pair), *_frames(pair, bottom)]
    parts += _legs(status, local, places, broken)
    for index, path in enumerate(pair.paths):
        ends = places[path.relays[own_side]].right, places[path.relays[1 - own_side]].left
        # Two links of the same relays lie side by side.
        shift = 10 * sum(each.relays == path.relays for each in pair.paths[:index])
        parts += _draw_path(path, ends, shift, broken)
    active = next((path for path in pair.paths if path.is_active), None)
    if active is not None:
        parts += _far_legs(status, active, places[active.relays[1 - own_side]], {name: places[name] for name in far})
    parts += [part for name, place in places.items() for part in _node(name, place, status, broken)]
    parts += _key(status, pair, bottom + 20)
    return height, parts


def _title(pair: PairStatus) -> Iterator[str]:
    verdict = pair.verdict
    colour = _SEVERITIES[verdict.severity]
    yield f'<circle cx="32" cy="20" r="8" fill="{colour}"/>'
    yield f'<text class="head" x="48" y="25">{escape(pair.location)} to {escape(pair.remote_location)}: '
    yield f'<tspan fill="{colour}">{escape(CATALOGUE[verdict.fault].title)}</tspan></text>'


def _frames(pair: PairStatus, bottom: int) -> Iterator[str]:
    for left, right, name in (
        (_HOME_X - 12, _LOCAL_X + _NODE_WIDTH + 12, pair.location),
        (_REMOTE_X - 12, _FAR_X + _NODE_WIDTH + 12, pair.remote_location),
    ):
        yield f'<rect class="place" x="{left}" y="38" width="{right - left}" height="{bottom - 32}" rx="8"/>'
        yield f'<text class="dim" x="{left + 8}" y="52">{escape(name)}</text>'


def _legs(status: Status, local: Sequence[str], places: dict[str, _Place], broken: Broken | None) -> Iterator[str]:
    """From this node to the relays of its location, one line for each layer that is probed."""
    for name in local:
        lanes = [(layer, state) for layer in _LANES if (state := _worst(status, layer, name))]
        for index, (layer, state) in enumerate(lanes):
            if name == status.node:
                continue
            (x1, y1), (x2, y2) = places[status.node].right, places[name].left
            shift = (index - (len(lanes) - 1) / 2) * 12
            is_broken = _is_marked(broken, name, layer)
            yield _line((x1, y1 + shift), (x2, y2 + shift), "down" if is_broken else state, is_cut=is_broken)
            at = x1 + (x2 - x1) * _LANES[layer], y1 + (y2 - y1) * _LANES[layer] + shift + 4
            yield _label(at, layer.name.lower())


def _draw_path(
    path: PathStatus, ends: tuple[tuple[int, int], tuple[int, int]], shift: int, broken: Broken | None
) -> Iterator[str]:
    (x1, y1), (x2, y2) = ends
    is_tunnel_broken = broken is not None and broken.layer == "wireguard" and path.rank == 0
    state = "down" if is_tunnel_broken else path.state
    is_cut = state == "down"
    yield _line((x1, y1 + shift), (x2, y2 + shift), state, width=5 if path.is_active else 2, is_cut=is_cut)
    share = _LABELS[path.rank % len(_LABELS)]
    yield _label((x1 + (x2 - x1) * share, y1 + (y2 - y1) * share + shift - 5), f"rank {path.rank}")


def _far_legs(status: Status, active: PathStatus, relay: _Place, far: dict[str, _Place]) -> Iterator[str]:
    """From the relay in use to the other nodes there, by the probes that go all the way."""
    for name, place in far.items():
        states = [each.state for each in status.sessions if each.peer == name and each.path == active.number]
        if states:
            yield _line(relay.right, place.left, _gravest(states))


def _node(name: str, place: _Place, status: Status, broken: Broken | None) -> Iterator[str]:
    is_culprit = broken is not None and broken.node == name
    kind = "culprit" if is_culprit else "here" if name == status.node else "node"
    yield f'<rect class="{kind}" x="{place.x}" y="{place.y}" width="{_NODE_WIDTH}" height="{_NODE_HEIGHT}" rx="6"/>'
    role = f"this node, {status.role}" if name == status.node else ""
    yield f'<text x="{place.x + 10}" y="{place.y + 15}">{escape(name)}</text>'
    text = broken.fault if broken is not None and is_culprit else role
    yield f'<text class="dim" x="{place.x + 10}" y="{place.y + 28}">{escape(text[:19])}</text>'


def _key(status: Status, pair: PairStatus, top: int) -> Iterator[str]:
    for index, path in enumerate(sorted(pair.paths, key=lambda each: each.rank)):
        used = ", in use" if path.is_active else ""
        rtt = render_rtt(path_rtt_ns(status, path))
        text = f"rank {path.rank}  {name_path(path)}  {path.state}{used}  {rtt}"
        y = top + 15 * index
        yield f'<line x1="24" y1="{y - 4}" x2="44" y2="{y - 4}" stroke="{COLOURS.get(path.state, "#78909c")}"'
        yield f' stroke-width="{5 if path.is_active else 2}"/><text class="dim" x="52" y="{y}">{escape(text)}</text>'


def _own_side(status: Status, pair: PairStatus) -> int:
    """Which of a path's two relays is in this node's location."""
    near = {status.node, *(each.peer for each in status.sessions if each.layer in _LANES)}
    return next((side for path in pair.paths for side in (0, 1) if path.relays[side] in near), 0)


def _column(names: Sequence[str], x: int, rows: int) -> dict[str, _Place]:
    room = rows * (_NODE_HEIGHT + _GAP)
    step = room / max(1, len(names))
    return {name: _Place(x, round(_HEAD + step * (index + 0.5) - _NODE_HEIGHT / 2)) for index, name in enumerate(names)}


def _worst(status: Status, layer: Layer, peer: str) -> str:
    return _gravest([each.state for each in status.sessions if each.layer is layer and each.peer == peer])


def _gravest(states: Sequence[str]) -> str:
    return next((state for state in ("down", "suspect", "init", "up") if state in states), "")


def _is_marked(broken: Broken | None, node: str, layer: Layer) -> bool:
    return broken is not None and broken.node == node and broken.layer == layer.name.lower()


def _line(
    start: tuple[float, float], end: tuple[float, float], state: str, *, width: int = 2, is_cut: bool = False
) -> str:
    (x1, y1), (x2, y2) = start, end
    dashes = ' stroke-dasharray="7 5"' if is_cut else ""
    cross = ""
    if is_cut:
        x, y = (x1 + x2) / 2, (y1 + y2) / 2
        cross = f'<path d="M{x - 6:.0f} {y - 6:.0f}l12 12m0 -12l-12 12" stroke="{COLOURS["down"]}" stroke-width="3"/>'
    colour = COLOURS.get(state, "#78909c")
    ends = f'x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"{dashes}/>{cross}'


def _label(place: tuple[float, float], text: str) -> str:
    x, y = place
    return f'<text class="dim label" x="{x:.0f}" y="{y:.0f}" text-anchor="middle">{escape(text)}</text>'


def _unique(names: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(names))
