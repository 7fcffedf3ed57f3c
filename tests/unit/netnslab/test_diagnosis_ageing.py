"""That a mesh has lived while it was watched: new keys for every peer that talks, and entries that aged."""

from netnslab.diagnosis_ageing import Look, age, parse_handshakes, parse_neighbours

WG = """wg0\tKEYAAAAAAAAA\t1700000000
wg0\tKEYBBBBBBBBB\t0
"""
NEIGH = """[{"dst":"10.0.0.1","dev":"eth0","lladdr":"02:00:00:00:00:01","state":["STALE"]},
{"dst":"10.0.0.2","dev":"eth0","state":["FAILED"]},{"dst":"10.0.0.3","dev":"eth0"}]"""


def seen(handshake, state, *, silent=0):
    """One node with a peer that talks, one that never did, and one neighbour."""
    keys = {("wg0", "KEYAAAAAAAAA"): handshake, ("wg0", "KEYBBBBBBBBB"): silent}
    return [Look(node="c1", handshakes=keys, neighbours={("eth0", "10.0.0.1"): state})]


def test_answers_of_wg_and_ip_are_read():
    """Nobody has a state who is not being asked for."""
    assert {("wg0", "KEYAAAAAAAAA"): 1_700_000_000, ("wg0", "KEYBBBBBBBBB"): 0} == parse_handshakes(WG)
    assert {("eth0", "10.0.0.1"): "STALE", ("eth0", "10.0.0.2"): "FAILED"} == parse_neighbours(NEIGH)
    assert {} == parse_neighbours("")


def test_every_new_handshake_counts_and_the_first_one_seen_does_not():
    """Two new ones of the peer that talks; the one that never did is no reason to doubt."""
    states = ("REACHABLE", "STALE", "DELAY", "REACHABLE", "DELAY", "FAILED")
    lived = age([seen(at, state) for at, state in zip((100, 100, 220, 220, 340, 340), states, strict=True)])

    assert {"c1 wg0 KEYAAAAA": 2} == lived.handshakes
    assert (2, 1) == (lived.stale, lived.renewed), "an entry in constant use is delayed before it is seen stale"
    assert lived.is_shown


def test_a_mesh_in_which_nothing_aged_proves_nothing():
    """One handshake is too few, no stale entry is too few, and so is a lab that nobody looked at."""
    assert not age([seen(100, "REACHABLE"), seen(220, "STALE")]).is_shown
    assert not age([seen(100, "REACHABLE"), seen(220, "REACHABLE"), seen(340, "REACHABLE")]).is_shown
    assert not age([seen(100, "REACHABLE"), seen(220, "STALE"), seen(340, "STALE", silent=330)]).is_shown
    assert not age([]).is_shown
