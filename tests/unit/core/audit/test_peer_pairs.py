"""Another machine in the place of a dead one: flannel has written it, and nothing is put back over it."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.core.audit.peer_pairs import Pair, is_rewritten, pairs_of
from meshwatchd.model.snapshot import Forwarding, Neighbour
from tests.support.flannel_node import DEVICE, changed, entries, good, hello, look, mac, snapshot

HELD, GOOD = entries(3), good(3)
NEW, PLACE = "66:00:00:00:00:02", "192.168.50.77"
OLD_WORD = {"n2": hello(2, mac(2))}
OTHERS_WORD = {"n1": hello(1, mac(1))}
DEAD = ("n2",)


def _written(lladdr=NEW, dst=PLACE, *, is_permanent=True):
    """The entries of n2 as flannel writes them for another machine."""
    neighbour = Neighbour(dev=DEVICE, address="10.42.2.0", lladdr=lladdr, is_permanent=is_permanent)
    kept = tuple(each for each in HELD.forwarding[:1] if each.lladdr != lladdr)
    forwarding = (*kept, Forwarding(dev=DEVICE, lladdr=lladdr, dst=dst))
    return changed(HELD, neighbours=(HELD.neighbours[0], neighbour), forwarding=forwarding)


def _codes(held, *, count=3, known=GOOD, **more):
    return sorted(each.code.value for each in look(snapshot(held), count, known=known, **more))


@pytest.mark.parametrize(
    ("count", "known", "hellos", "unheard"),
    [
        (3, GOOD, OLD_WORD, DEAD),
        (3, GOOD, {**OLD_WORD, **OTHERS_WORD}, DEAD),
        (3, None, OLD_WORD, DEAD),
        (2, GOOD, OTHERS_WORD, ()),
        (3, GOOD, OTHERS_WORD, ()),
        (3, GOOD, {"n9": hello(2, NEW, node="n9", node_ip=PLACE)}, ()),
    ],
    ids=["dead", "dead, others live", "no past", "unknown", "without a daemon", "the new one lives"],
)
def test_another_machine_with_the_pods_of_a_former_one_is_believed(count, known, hellos, unheard):
    """Its MAC and its address are other ones, in neighbour and FDB, and the one that had them says nothing."""
    assert [] == _codes(_written(), count=count, known=known, hellos=hellos, unheard=unheard)


def test_the_former_fdb_entry_may_be_left_behind():
    """Where a node's lease changes in place flannel adds the new one and forgets the former."""
    held = _written()
    assert [] == _codes(changed(held, forwarding=(*held.forwarding, HELD.forwarding[1])))


def test_a_machine_that_was_set_up_anew_at_the_same_address_is_not_given_its_former_mac():
    """Its last word is that of the former system; while it is heard with it, flannel has the wrong one."""
    held = _written(dst="192.168.50.12")
    assert [] == _codes(held, hellos=OLD_WORD, unheard=DEAD)
    assert ["vtep-mac-changed"] == _codes(held, hellos=OLD_WORD)


def test_a_living_node_is_believed_before_what_is_written_for_its_gateway():
    """Somebody leads its pods to another machine."""
    assert ["fdb-entry-missing", "neighbour-wrong-mac"] == _codes(_written(), hellos=OLD_WORD)


@pytest.mark.parametrize("unheard", [(), DEAD], ids=["no daemon", "dead"])
@pytest.mark.parametrize(
    ("held", "codes"),
    [
        (changed(_written(), forwarding=HELD.forwarding), ["neighbour-wrong-mac"]),
        (_written(mac(2)), ["fdb-entry-wrong"]),
        (_written(is_permanent=False), ["fdb-entry-missing", "neighbour-wrong-mac"]),
        (_written(dst="192.168.50.11"), ["fdb-entry-missing", "neighbour-wrong-mac"]),
        (
            changed(HELD, neighbours=(*HELD.neighbours[:1], _written(mac(1)).neighbours[1])),
            ["neighbour-wrong-mac"],
        ),
    ],
    ids=["neighbour alone", "FDB alone", "learned", "to another's address", "another's MAC"],
)
def test_half_a_pair_and_what_belongs_to_another_peer_are_found(unheard, held, codes):
    """As ever: flannel writes both, and no two gateways have one MAC or one address."""
    hellos = OLD_WORD if unheard else {}
    assert codes == _codes(held, hellos=hellos, unheard=unheard)


def test_two_neighbours_that_were_exchanged_are_found_and_not_believed():
    """Each has the whole pair of the other, as while all was well."""
    first, second = HELD.neighbours
    swapped = (
        msgspec.structs.replace(first, lladdr=second.lladdr),
        msgspec.structs.replace(second, lladdr=first.lladdr),
    )
    assert ["neighbour-wrong-mac"] * 2 == _codes(changed(HELD, neighbours=swapped))


def test_a_dead_node_is_followed_nowhere_and_its_last_word_is_better_than_none():
    """It said another address than flannel sends to; what has lost its neighbour and its FDB entry is still missed."""
    away = {"n2": hello(2, mac(2), node_ip="192.168.50.99")}
    assert ["fdb-entry-wrong"] == _codes(HELD, hellos=away)
    assert [] == _codes(HELD, hellos=away, unheard=DEAD)

    bare = changed(HELD, neighbours=HELD.neighbours[:1], forwarding=HELD.forwarding[:1])
    assert ["fdb-entry-missing", "neighbour-missing"] == _codes(bare, known=None, hellos=OLD_WORD, unheard=DEAD)


@pytest.mark.parametrize(
    ("view", "is_believed"),
    [
        (hello(2, NEW, node_ip=PLACE), True),
        (hello(2, NEW), False),
        (hello(2, mac(2), node_ip=PLACE), False),
        (hello(2, "", node_ip=PLACE), True),
        (hello(1, NEW), False),
        (hello(1, mac(1), node_ip=PLACE), False),
        (hello(1, mac(1)), True),
        (hello(1, "", node_ip=PLACE, overlay_ip=""), True),
    ],
    ids=["the same", "elsewhere", "other MAC", "no MAC", "its MAC", "its address", "another", "no overlay yet"],
)
def test_one_living_word_against_a_pair_is_enough(view, is_believed):
    """Of the node behind the gateway, or of another one that is where the pair leads."""
    found = is_rewritten("10.42.2.0", pairs_of(_written()), pairs_of(HELD), gone=(), views=(view.view,))
    assert is_believed == found


def test_the_mac_of_a_removed_peer_is_free():
    """Its machine was registered anew, behind the gateway of another that is gone."""
    now = {"10.42.2.0": Pair(NEW, PLACE, is_permanent=True)}
    was = {"10.42.2.0": Pair(mac(2), "192.168.50.12", True), "10.42.7.0": Pair(NEW, PLACE, True)}

    assert is_rewritten("10.42.2.0", now, was, gone=("10.42.7.0",), views=())
    assert not is_rewritten("10.42.2.0", now, was, gone=(), views=())
    assert not is_rewritten("10.42.8.0", now, was, gone=(), views=())
