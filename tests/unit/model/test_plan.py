"""Kernel objects in the words of `ip`, and changes that can be undone."""

from __future__ import annotations

import pytest

from meshwatchd.model.plan import Route, Rule, Switch


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule(priority=5460, table=7701), "pref 5460 from all lookup 7701"),
        (Rule(priority=5400, table=7799, iif="mw0"), "pref 5400 from all iif mw0 lookup 7799"),
        (
            Rule(priority=5411, table=7701, dport=(18621, 18621)),
            "pref 5411 from all ipproto udp dport 18621 lookup 7701",
        ),
        (
            Rule(priority=5410, goto=5480, sport=(10000, 29999), dport=(18620, 18620)),
            "pref 5410 from all ipproto udp sport 10000-29999 dport 18620 goto 5480",
        ),
    ],
)
def test_a_rule_reads_as_ip_rule_takes_it(rule, words):
    """An operator can type what the daemon says."""
    assert words == rule.render()


def test_a_route_reads_as_ip_route_takes_it():
    """A gateway is always on-link: it need not be in any subnet of the device."""
    relayed = Route(dst="10.244.4.0/24", table=7701, dev="flannel.1", via="10.244.1.0", src="192.168.100.13")

    assert "10.244.4.0/24 via 10.244.1.0 dev flannel.1 src 192.168.100.13 onlink table 7701" == relayed.render()
    assert "10.2.0.13/32 dev mw0 table 7701" == Route(dst="10.2.0.13/32", table=7701, dev="mw0").render()


def test_a_switch_adds_before_it_deletes():
    """Make before break, in the order the commands are shown."""
    switch = Switch(add=(Rule(priority=5460, table=7703),), delete=(Rule(priority=5460, table=7701),))

    assert (
        "ip rule add pref 5460 from all lookup 7703 protocol 117",
        "ip rule del pref 5460 from all lookup 7701 protocol 117",
    ) == switch.render(117)


def test_the_inverse_undoes_a_switch():
    """Twice inverted it is the same again."""
    switch = Switch(add=(Rule(priority=5460, table=7703),), delete=())

    assert Switch(add=(), delete=switch.add) == switch.inverse()
    assert switch == switch.inverse().inverse()
