"""A node that flannel has removed is missed by nobody, and one that lives or is left in part is."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from meshwatchd.core.audit.native_peers import Known, audit_native_peers
from meshwatchd.core.audit.removed_nodes import removed_nodes, without_removed
from meshwatchd.core.audit.view import View
from meshwatchd.core.audit.wireguard_losses import look_for_losses
from meshwatchd.model.audit import Entries
from meshwatchd.model.snapshot import DeviceRoute
from tests.support import native_node
from tests.support.flannel_node import DEVICE, LOCAL, changed, entries, good, hello, look, mac, mesh, snapshot

HELD, LEFT = entries(4), entries(3)
GONE = ("n3",)
LAST_WORD = {"n3": hello(3, mac(3))}
THREE = ["fdb-entry-missing", "neighbour-missing", "pod-route-missing"]


def _codes(held, **more):
    return sorted(each.code.value for each in look(snapshot(held), 4, **more))


def _view(held, *, unheard=GONE, ends=(), **more):
    seen = snapshot(held, dead_ends=ends)
    view = View(snapshot=seen, mesh=mesh(4), node=LOCAL, hellos=LAST_WORD, good=good(4), unheard=frozenset(unheard))
    return replace(view, **more)


@pytest.mark.parametrize("known", [good(4), None], ids=["remembered", "not remembered"])
@pytest.mark.parametrize("hellos", [LAST_WORD, {}], ids=["last word", "no word"])
def test_a_deleted_node_is_not_missed_once_it_is_taken_for_dead(known, hellos):
    """`kubectl delete node n3`: the roster keeps it for three days, and each other node has lost all three entries."""
    assert [] == _codes(LEFT, known=known, hellos=hellos, unheard=GONE)
    assert GONE == (*removed_nodes(_view(LEFT, good=known, hellos=hellos)),)


def test_a_living_node_that_loses_all_is_missed():
    """Heard, or never heard as one that `[mesh]` declares and that runs no daemon."""
    assert THREE == _codes(LEFT, known=good(4), hellos=LAST_WORD)
    assert THREE == _codes(LEFT, known=good(4))
    assert frozenset() == removed_nodes(_view(LEFT, unheard=()))


@pytest.mark.parametrize("known", [good(4), None], ids=["remembered", "not remembered"])
@pytest.mark.parametrize(
    ("lost", "code"),
    [("routes", "pod-route-missing"), ("neighbours", "neighbour-missing"), ("forwarding", "fdb-entry-missing")],
)
def test_one_lost_entry_of_a_dead_node_is_a_loss(known, lost, code):
    """Flannel deletes all three, so somebody else has deleted one; it is missed when the node comes back."""
    held = changed(HELD, **{lost: getattr(LEFT, lost)})
    assert [code] == _codes(held, known=known, hellos=LAST_WORD, unheard=GONE)


@pytest.mark.parametrize("kept", ["routes", "neighbours", "forwarding"])
def test_one_entry_that_is_left_of_a_dead_node_speaks_against_its_removal(kept):
    """By its MAC in the last good state, by that of its last word, or by its address."""
    held = changed(LEFT, **{kept: getattr(HELD, kept)})
    for known, hellos in ((good(4), {}), (None, LAST_WORD), (None, {})):
        assert frozenset() == removed_nodes(_view(held, good=known, hellos=hellos))
    assert 2 == len(_codes(held, known=good(4), unheard=GONE))


def test_a_device_that_was_emptied_was_not_emptied_by_flannel():
    """Taking it down and up leaves the FDB at most, and a kernel that was asked learns neighbours by itself."""
    everybody = ("n1", "n2", "n3")
    learned = tuple(msgspec.structs.replace(each, is_permanent=False) for each in LEFT.neighbours)
    for held in (Entries(), Entries(neighbours=learned), Entries(neighbours=LEFT.neighbours)):
        assert frozenset() == removed_nodes(_view(held, unheard=everybody))
    assert ["overlay-emptied"] == _codes(Entries(), known=good(4), unheard=everybody)
    assert frozenset() == removed_nodes(replace(_view(LEFT), snapshot=snapshot(LEFT, is_up=False)))


def test_pods_that_are_led_elsewhere_are_not_removed():
    """A dead end in the place of the route, or the same prefix into another device of the mesh."""
    end = DeviceRoute(dst="10.42.3.0/24", dev="", table=254, protocol=3, kind="blackhole")
    into = DeviceRoute(dst="10.42.3.0/24", dev="wg0", table=254, protocol=3)
    assert frozenset() == removed_nodes(_view(LEFT, ends=(end,)))
    assert frozenset() == removed_nodes(_view(changed(LEFT, routes=(*LEFT.routes, into))))


def test_what_was_removed_is_not_put_back_with_the_rest():
    """The own MAC was changed before that was good: neighbours are put back, those of a removed node are not."""
    held = changed(LEFT, neighbours=LEFT.neighbours[1:])
    found = look(snapshot(held, lladdr=mac(9)), 4, known=good(4), hellos=LAST_WORD, unheard=GONE)
    assert ["vtep-mac-changed"] == [each.code.value for each in found if each.subject == DEVICE]
    assert not {n.address for each in found for n in each.wanted.neighbours} & {"10.42.3.0"}


def test_no_audit_knows_a_removed_node():
    """Where the kernel leads packets for its pods is asked no more; a view that has lost nothing stays what it is."""
    assert ("n0", "n1", "n2") == tuple(each.name for each in without_removed(_view(LEFT)).mesh.node)
    whole = _view(HELD)
    assert without_removed(whole) is whole


# --- flannel's wireguard backend ---


def _native(state, *, unheard=("d1",), hellos=None, seen=None):
    seen = msgspec.structs.replace(seen or native_node.snapshot(), wireguard=(state,) if state is not None else ())
    return replace(native_node.view(seen), hellos=hellos or {}, unheard=frozenset(unheard))


def _native_codes(view):
    """Of peers that were there and are gone, and of pods that none has."""
    (state,) = view.snapshot.wireguard
    known = Known(state=state, was=None, mesh=view.mesh, node="c1", hellos=view.hellos)
    lost = look_for_losses(view.snapshot, (state,), mesh=view.mesh, node="c1", good=view.good, hellos=view.hellos)
    return [each.code.value for each in (*lost, *audit_native_peers(known))]


C2, D1 = native_node.peer("c2"), native_node.peer("d1")
KEYS = {name: native_node.hello(name) for name in ("c2", "d1")}


def test_a_deleted_node_of_the_wireguard_backend_is_not_missed():
    """Flannel removes its peer from each other node."""
    view = _native(native_node.device(C2), hellos=KEYS)
    assert ["wireguard-peer-missing", "wireguard-peer-missing"] == _native_codes(view)
    assert [] == _native_codes(without_removed(view))


@pytest.mark.parametrize(
    "state",
    [
        native_node.device(C2, native_node.peer("d1", "10.42.2.0/25")),
        native_node.device(C2, native_node.peer("d1", "10.99.0.0/16")),
        native_node.device(native_node.peer("c2", "10.42.1.0/24", "10.42.2.0/24")),
        native_node.device(native_node.peer("c2", "10.42.0.0/16")),
        native_node.device(),
        native_node.device(msgspec.structs.replace(C2, allowed_ips=())),
        None,
    ],
    ids=["a part", "its key", "with another", "wider", "emptied", "all without pods", "not seen"],
)
def test_what_is_left_of_a_peer_speaks_against_its_removal(state):
    """As does a device of which nothing is left."""
    assert frozenset() == removed_nodes(_native(state))
    assert frozenset() == removed_nodes(_native(state, hellos=KEYS))


def test_a_living_peer_and_meshes_of_others_are_judged_as_ever():
    """So is the device of a third party, whose agent may do otherwise, and one that is down."""
    state = native_node.device(C2)
    assert frozenset() == removed_nodes(_native(state, unheard=()))
    assert frozenset() == removed_nodes(replace(_native(state), mesh=native_node.elsewhere()))
    assert frozenset() == removed_nodes(_native(state, seen=native_node.snapshot(is_up=False)))
