from netnslab.bench.__main__ import BENCHMARKS, split


def test_names_come_first_and_options_behind_them():
    """As in ARGS='detection --trials 5 --links veth'."""
    assert (["detection"], ["--trials", "5", "--links", "veth"]) == split(
        ["detection", "--trials", "5", "--links", "veth"]
    )
    assert (["cpu", "scale"], []) == split(["cpu", "scale"])


def test_without_a_name_all_are_run():
    """What `make bench` does."""
    assert (list(BENCHMARKS), []) == split([])
