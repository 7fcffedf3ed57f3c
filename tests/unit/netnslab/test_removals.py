"""What ip(8) shows of an object, as the command that removes it."""

from netnslab import bench_removal, removals


def test_an_object_is_removed_by_the_words_that_show_it():
    """A rule by priority and selectors, since two may share the one; a route with the protocol it was listed by."""
    shown = "rule 5411: from all ipproto udp sport 18621 dport 10000-29999 lookup 7741 proto 117"
    assert (
        "rule del pref 5411 from all ipproto udp sport 18621 dport 10000-29999 lookup 7741 proto 117"
        == removals.deletion(shown)
    )
    assert "route del 10.244.1.0/24 dev mw0 table 7701 scope link src 10.2.0.12 proto 117" == removals.deletion(
        "route 10.244.1.0/24 dev mw0 table 7701 scope link src 10.2.0.12"
    )


def test_figures_say_how_many_were_in_time():
    """Nearest rank, in milliseconds; nothing measured is no figure."""
    assert {"trials": 3, "p50_ms": 20.0, "p95_ms": 120.0, "max_ms": 120.0, "within_goal": 2} == bench_removal.summarise(
        [20_000_000, 10_000_000, 120_000_000]
    )
    assert {"trials": 0, "p50_ms": None, "p95_ms": None, "max_ms": None, "within_goal": 0} == bench_removal.summarise(
        []
    )
