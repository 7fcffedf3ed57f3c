"""Kilo's metrics."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshwatchd.adapters.sources.kilo_metrics import parse
from meshwatchd.model.errors import DecodeError
from meshwatchd.model.sources import KiloMetrics

WHOLE = """# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 31
# HELP kilo_errors_total Number of errors that occurred while administering the mesh.
# TYPE kilo_errors_total counter
kilo_errors_total{event="apply"} 2
# HELP kilo_leader Leadership status of the node.
# TYPE kilo_leader gauge
kilo_leader 1
# HELP kilo_nodes Number of nodes in the mesh.
# TYPE kilo_nodes gauge
kilo_nodes 6
# HELP kilo_reconciles_total Number of reconciliation attempts.
# TYPE kilo_reconciles_total counter
kilo_reconciles_total 1.2345e+04
"""


def test_the_few_that_matter_are_read():
    """Go writes large counters as floats."""
    assert KiloMetrics(is_leader=True, nodes=6, reconciles=12345) == parse(WHOLE.encode())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("kilo_leader 1", "kilo_leader 2", "kilo_leader is 2, neither 0 nor 1"),
        ("kilo_nodes 6", "kilo_nodes 6.5", "kilo_nodes is 6.5, no whole number"),
        ("kilo_nodes 6", "kilo_nodes NaN", "no whole number"),
        ("kilo_nodes 6", "kilo_nodes +Inf", "no whole number"),
        ("kilo_nodes 6", "kilo_nodes -1", "no whole number"),
        ("kilo_nodes 6", "", "there is no kilo_nodes"),
        ("kilo_nodes 6", "kilo_nodes{", "not understood"),
        ("kilo_leader 1", 'kilo_leader{a="b"} 1', "there is no kilo_leader"),
    ],
)
def test_other_values_are_refused(old, new, reason):
    """With the name of the metric."""
    with pytest.raises(DecodeError, match="kilo metrics") as refused:
        parse(WHOLE.replace(old, new).encode())

    assert reason in refused.value.reason


@given(
    st.text(max_size=100).map(lambda text: f"kilo_leader 1\n{text}")
    | st.sampled_from(["kilo_leader", "kilo_nodes", "kilo_reconciles_total"]).flatmap(
        lambda name: st.text(max_size=30).map(lambda text: WHOLE + name + text)
    )
)
def test_no_text_makes_it_fail_otherwise(text):
    """Numbers, or a reason."""
    with contextlib.suppress(DecodeError):
        parse(text.encode(errors="surrogatepass"))


@pytest.mark.parametrize("value", ["9" * 400, "-" + "9" * 400, "NaN", "+Inf", "1e999"])
def test_a_figure_of_any_size_is_refused_in_words(value):
    """Any user may listen on Kilo's port while Kilo does not run."""
    with pytest.raises(DecodeError):
        parse(f"kilo_leader 1\nkilo_nodes {value}\nkilo_reconciles_total 7\n".encode())
