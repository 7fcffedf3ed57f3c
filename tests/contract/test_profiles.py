"""What every profile has to keep to, tried on nodes that were captured with scripts/snapshot-capture.

A file of `snapshots/` is a node: what its kernel and its sources said, and the view that was made of it, checked by
somebody who knows the node. `make golden` writes the views anew; read the difference. A further profile is tried with
all files as soon as it is in `profiles.compose.LOOKS`, and on a node of its own kind as soon as that is captured.

Those of Antrea, Kube-OVN and OVN-Kubernetes have the devices of a real Open vSwitch 3.1 under Debian's kernel, between
two nodes whose pings crossed the tunnel. Ports, addresses and routes were made by hand, as the documents and the source
of the agents have them: no agent of theirs has made one.
Liqo's has a Geneve device, table and rules of the same kernel, made by hand as Liqo's fabric makes them.
"""

from __future__ import annotations

import os
import re
from ipaddress import ip_address, ip_network
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import compose
from meshwatchd.profiles.compose import LOOKS
from meshwatchd.runtime.capture import parse, render

FILES = sorted((Path(__file__).parent / "snapshots").glob("*.json"))
CAPTURES = {file.stem: parse(file.read_bytes()) for file in FILES}
DECLARED = MeshSettings()

ADDRESSES = ("leader", "node_ip", "overlay_ip", "wireguard_ip", "node_ip6", "overlay_ip6", "wireguard_ip6")
DEVICES = ("wireguard_device", "overlay_device", "ipip_device")

each_node = pytest.mark.parametrize("node", list(CAPTURES))
each_look = pytest.mark.parametrize("look", list(LOOKS))


def seen(look: str, node: str) -> LocalView:
    """What a profile says of a node."""
    captured = CAPTURES[node]
    return LOOKS[look](captured.snapshot, captured.sources, DECLARED, captured.node)


def composed(node: str) -> LocalView:
    """The view of a node."""
    captured = CAPTURES[node]
    return compose.look(captured.snapshot, captured.sources, DECLARED, captured.node)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_view_is_the_one_that_was_checked(file):
    """Word for word, reasons included."""
    captured = msgspec.structs.replace(CAPTURES[file.stem], view=composed(file.stem))
    if os.environ.get("MESHWATCH_UPDATE_GOLDEN"):
        file.write_text(render(captured), encoding="utf-8")

    assert file.read_text(encoding="utf-8") == render(captured)


@each_look
def test_each_profile_has_a_node_of_its_kind(look):
    """Without one, nothing here says that it recognises anything."""
    assert any(seen(look, node).profiles for node in CAPTURES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_capture_has_no_keys(file):
    """Public ones included: they are nobody's business."""
    assert re.findall(r"[A-Za-z0-9+/]{43}=", file.read_text(encoding="utf-8")) == []


@each_node
@each_look
def test_who_holds_gives_his_name_and_who_does_not_tells_nothing_else(look, node):
    """Of a profile that does not hold, only the reasons count."""
    view = seen(look, node)

    if view.profiles:
        assert (look,) == view.profiles
    else:
        assert LocalView(profiles=(), node=view.node, why=view.why) == view


@each_node
@each_look
def test_everybody_says_why_and_where_that_was_read(look, node):
    """Sentences, for `meshwatchctl topology --why`."""
    view = seen(look, node)

    assert view.why
    for finding in view.why:
        assert finding.source.strip() == finding.source != ""
        assert finding.text.strip() == finding.text != ""
        assert "\n" not in finding.source + finding.text


@each_node
@each_look
def test_the_same_node_gives_the_same_view(look, node):
    """A look is a function: nothing of the world, nothing of the time, nothing of the last call."""
    assert seen(look, node) == seen(look, node)


@each_node
@each_look
def test_what_is_told_is_of_the_kind_it_should_be(look, node):
    """Addresses are addresses, and devices are there."""
    view, snapshot = seen(look, node), CAPTURES[node].snapshot

    told = [getattr(view, name) for name in ADDRESSES] + [candidate.address for candidate in view.candidates]
    for address in filter(None, told):
        assert address == str(ip_address(address))
    assert view.pod_cidr in {"", str(ip_network(view.pod_cidr or "0.0.0.0/0"))}
    assert view.granularity in {"", "location", "full", "cross"}
    for device in (*(getattr(view, name) for name in DEVICES), *(layer.device for layer in view.layers)):
        assert device == "" or snapshot.link(device) is not None


@each_node
def test_no_candidate_is_the_node_itself(node):
    """It need not greet itself."""
    own = {address for link in CAPTURES[node].snapshot.links for address in link.addresses}

    assert set() == own & {candidate.address for candidate in composed(node).candidates}


def _part_of(values):
    """Some of them, in their order."""
    values = list(values)
    return st.lists(st.booleans(), min_size=len(values), max_size=len(values)).map(
        lambda chosen: tuple(value for value, is_in in zip(values, chosen, strict=True) if is_in)
    )


@st.composite
def half_seen(draw) -> tuple[str, Snapshot, Sources]:
    """A node in the middle of being built, taken down, or read."""
    node = draw(st.sampled_from(sorted(CAPTURES)))
    whole, sources = CAPTURES[node].snapshot, CAPTURES[node].sources
    links = [
        msgspec.structs.replace(link, is_up=link.is_up and draw(st.booleans()))
        if draw(st.booleans())
        else msgspec.structs.replace(link, addresses=(), addresses_v6=(), prefix_lengths=())
        for link in draw(_part_of(whole.links))
    ]
    snapshot = msgspec.structs.replace(
        whole,
        links=tuple(links),
        device_routes=draw(_part_of(whole.device_routes)),
        gateways=draw(_part_of(whole.gateways)),
        default_routes=draw(_part_of(whole.default_routes)),
        neighbours=draw(_part_of(whole.neighbours)),
        forwarding=draw(_part_of(whole.forwarding)),
        wireguard=draw(_part_of(whole.wireguard)),
    )
    gone = {name: None for name in ("kilo", "cilium", "flannel", "flannel_backend") if draw(st.booleans())}
    return node, snapshot, msgspec.structs.replace(sources, **gone)


@given(half_seen())
def test_a_node_half_seen_makes_nobody_fail(half):
    """Every moment of a start is seen by somebody; each gives a view with reasons."""
    node, snapshot, sources = half

    view = compose.look(snapshot, sources, DECLARED, CAPTURES[node].node)

    assert len(view.why) >= len(LOOKS)
    assert msgspec.json.decode(msgspec.json.encode(view), type=LocalView) == view
