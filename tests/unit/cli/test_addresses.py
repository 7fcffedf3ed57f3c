"""Addresses as people type them."""

from __future__ import annotations

import click
import pytest

from meshwatchd.cli.addresses import Address, Server


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("10.96.0.10", ("10.96.0.10", 53)),
        ("10.96.0.10:5353", ("10.96.0.10", 5353)),
        ("FD00::A", ("fd00::a", 53)),
        ("[fd00::a]", ("fd00::a", 53)),
        ("[fd00::a]:5353", ("fd00::a", 5353)),
    ],
)
def test_a_server_is_an_address_with_a_port(typed, expected):
    """53 unless it is named."""
    assert expected == Server().convert(typed, None, None)


@pytest.mark.parametrize("typed", ["dns", "10.96.0", "10.96.0.10:0", "10.96.0.10:65536", "dns:53", "[10", ""])
def test_what_is_no_server_is_wrong_usage(typed):
    """In a sentence."""
    with pytest.raises(click.BadParameter):
        Server().convert(typed, None, None)


def test_an_address_has_its_usual_form():
    """Or is none."""
    assert "fd00::a" == Address().convert("FD00:0::000A", None, None)
    with pytest.raises(click.BadParameter):
        Address().convert("10.0.0.256", None, None)
