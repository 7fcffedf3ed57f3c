"""The configuration file, and each way to get it wrong that the daemon's own file has not."""

from __future__ import annotations

import pytest

from meshwatchd.model.errors import ConfigError
from meshwatchkube.load import load
from meshwatchkube.settings import LeaderKind, Mode, Settings


def _load(tmp_path, text):
    path = tmp_path / "kube.toml"
    path.write_text(text)
    return load(path)


def test_an_empty_file_does_nothing(tmp_path):
    """Everything that writes is off."""
    settings = _load(tmp_path, "")
    assert Settings() == settings
    assert {Mode.OFF} == {settings.promotion.mode, settings.gating.mode}
    assert not settings.drain.follow


def test_durations_have_units(tmp_path):
    """As in the daemon's file."""
    text = '[promotion]\nmode = "dry-run"\nkind = "submariner"\npromote_after = "90s"\ndemote_after = "0s"\n'
    promotion = _load(tmp_path, text).promotion
    assert (Mode.DRY_RUN, LeaderKind.SUBMARINER) == (promotion.mode, promotion.kind)
    assert (90_000_000_000, 0) == (promotion.promote_after, promotion.demote_after)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[promotion]\nmode = "enforce"\nkind = "hook"\n', "promotion.hook"),
        ('[lease]\nduration = "4s"\n', "lease.duration"),
        ('[promotion]\ndetour_wait = "29s"\n', "promotion.detour_wait"),
        ('[gating]\ncordon = true\neffect = "NoExecute"\n', "gating.cordon"),
        ('[gating]\neffect = "NoScheduling"\n', "gating.effect"),
        ("[gating]\nmax_tained = 2\n", "did you mean max_tainted"),
        ('[promotion]\nsettle_wait = "5min"\n', "a pin lasts for ten minutes"),
        ('[api]\nkubeconfig = "x"\n', "api.kubeconfig"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, key):
    """With its key, or with what was meant."""
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert key in str(caught.value)
