"""A role is believed when it lasts."""

from __future__ import annotations

from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import NodeName
from meshwatchd.profiles.steady import HOLD_NS, Steady

MS = 1_000_000


def view(leader, *, is_leader=False, node_ip="10.2.0.12"):
    """A view with a role."""
    return LocalView(
        profiles=("kilo",),
        node=NodeName("b2"),
        leader=leader,
        is_leader=is_leader,
        node_ip=node_ip,
        wireguard_device="kilo0",
    )


MEMBER, LEADER = view("10.244.4.0"), view("10.244.5.0", is_leader=True)


def roles(steady, *seen):
    """Who is believed to lead after each view at its time."""
    return [steady.observe(each, at_ms * MS).leader for at_ms, each in seen]


def test_the_transient_of_a_restarted_agent_is_no_change():
    """A fifth of a second as the only node, then everything as before."""
    steady = Steady()

    told = roles(steady, (0, MEMBER), (10, LEADER), (150, LEADER), (210, MEMBER), (5000, MEMBER))
    assert ["10.244.4.0"] * 5 == told
    assert steady.deadline() is None


def test_a_change_of_leaders_is_followed_in_time():
    """1.2 s after it began, when asked at the deadline."""
    steady = Steady()

    assert ["10.244.4.0", "10.244.4.0"] == roles(steady, (0, MEMBER), (1000, LEADER))
    assert 1000 * MS + HOLD_NS == steady.deadline()
    assert ["10.244.4.0", "10.244.5.0"] == roles(steady, (2199, LEADER), (2200, LEADER))
    assert steady.deadline() is None


def test_each_new_role_starts_anew():
    """A mesh that is being rebuilt has no leader until it settles."""
    steady, third = Steady(), view("10.244.6.0")

    told = roles(steady, (0, MEMBER), (1000, LEADER), (2500, third), (3500, third), (4500, third))
    assert ["10.244.4.0"] * 4 + ["10.244.6.0"] == told


def test_everything_else_is_taken_at_once():
    """An address that changes is no role."""
    steady = Steady()
    steady.observe(MEMBER, 0)

    seen = steady.observe(view("10.244.5.0", is_leader=True, node_ip="10.2.0.99"), 10 * MS)

    assert ("10.2.0.99", "10.244.4.0", False) == (seen.node_ip, seen.leader, seen.is_leader)
    (reason,) = seen.why
    assert "this node leads, which counts once it has lasted for 1.2 s; until then 10.244.4.0 leads" == reason.text


def test_the_first_role_is_believed():
    """There is no other."""
    assert LEADER == Steady().observe(LEADER, 0)


def test_a_leader_that_is_gone_is_told_as_nobody():
    """Kilo has taken its routes back."""
    steady = Steady()
    steady.observe(MEMBER, 0)

    assert "nobody leads, which counts" in steady.observe(view(""), 1).why[0].text
    assert "" == steady.observe(view(""), HOLD_NS + 1).leader
