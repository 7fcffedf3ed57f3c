"""A sample of `make fuzz`: no input makes a decoder raise anything but a refusal."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import DecodeError
from tests.property.decoders import DECODERS, Decoder
from tests.property.fuzz import RARE_TOKENS, Batch, Report, attempt, batches

INPUTS = 500


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_but_a_refusal_escapes(name):
    """The inputs are the same in every run."""
    tried = attempt(Batch(name, seed=1, number=0, size=max(20, round(INPUTS * DECODERS[name].share))))

    assert [] == tried.escaped


@pytest.mark.parametrize("name", DECODERS)
def test_what_is_mutated_is_accepted_to_begin_with(name):
    """Or nothing behind the first check would ever be reached."""
    for seed in DECODERS[name].seeds:
        DECODERS[name].decode(seed)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("token", RARE_TOKENS)
def test_the_rare_tokens_are_refused_too(name, token):
    """They come once in two thousand inputs."""
    decoder = DECODERS[name]
    refusals: tuple[type[Exception], ...] = (DecodeError, *decoder.refusals)
    for data in (token, decoder.seeds[0][:9] + token + decoder.seeds[0][9:]):
        try:
            decoder.decode(data)
        except refusals:
            continue


def test_what_escapes_is_told_with_its_input(monkeypatch):
    """So that it can be given to the decoder again."""
    monkeypatch.setitem(DECODERS, "broken", Decoder(lambda data: data[4000], (b"abc",)))
    report = Report()
    report.add(attempt(Batch("broken", seed=3, number=0, size=10)))

    (escape,) = report.document(3, 1.0)["escapes"].values()
    assert (10, "IndexError: index out of range") == (escape["count"], escape["examples"][0]["error"])


def test_all_inputs_are_given_and_follow_from_the_seed():
    """Decoders take turns, so that a run that is cut short has met all of them."""
    planned = list(batches(200_000, 1))

    assert abs(sum(batch.size for batch in planned) - 200_000) < len(DECODERS)
    assert set(DECODERS) == {batch.name for batch in planned[: len(DECODERS)]}
    assert attempt(planned[0])._replace(seconds=0) == attempt(planned[0])._replace(seconds=0)
