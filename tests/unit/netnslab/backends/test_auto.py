"""Choosing a backend, with made-up kernels."""

from __future__ import annotations

import pytest

from netnslab.backends import auto
from netnslab.backends.model import Backend, BackendError, BackendName, Needs, WireGuard, run_here


def _works(name: BackendName, *, is_here: bool = True):
    backend = Backend(
        name=name,
        wireguard=WireGuard.KERNEL,
        has_ipip=True,
        has_netem=True,
        is_here=is_here,
        reason="it is there",
        run=run_here,
    )
    return lambda _: backend


def _refuses(why: str):
    def offer(_: Needs) -> Backend:
        raise BackendError(why)

    return offer


@pytest.fixture
def offers(monkeypatch):
    """A machine whose kernel lacks WireGuard, with a guest at hand."""
    made_up = {
        BackendName.HOST: _refuses("no WireGuard"),
        BackendName.USERSPACE: _works(BackendName.USERSPACE),
        BackendName.VM: _works(BackendName.VM, is_here=False),
    }
    monkeypatch.setattr(auto, "OFFERS", made_up)
    return made_up


def test_auto_takes_the_first_that_works_and_says_why(offers, capsys):
    """The line names the choice, its reason, and what was wrong with those before it."""
    assert BackendName.USERSPACE is auto.choose("auto", Needs()).name

    said = capsys.readouterr()
    assert "netnslab: backend userspace: it is there (host: no WireGuard)\n" == said.err
    assert "" == said.out


def test_a_named_backend_is_taken_or_refused(offers):
    """A wish is not replaced by something else in silence."""
    assert BackendName.VM is auto.choose("vm", Needs()).name
    with pytest.raises(BackendError, match="the backend host cannot be used: no WireGuard"):
        auto.choose("host", Needs())


def test_an_unknown_name_is_answered_with_the_known_ones(offers):
    """Nobody has to look into the code for the names."""
    with pytest.raises(BackendError, match="auto, host, userspace, vm"):
        auto.choose("cloud", Needs())


def test_nothing_works(offers):
    """The refusal lists every backend's reason."""
    offers.update({BackendName.USERSPACE: _refuses("no tun"), BackendName.VM: _refuses("no QEMU")})

    with pytest.raises(BackendError, match="host: no WireGuard; userspace: no tun; vm: no QEMU"):
        auto.choose("auto", Needs())


def test_a_backend_elsewhere_is_refused_with_the_way_in(offers):
    """A lab can not be built in this process under another kernel."""
    with pytest.raises(BackendError, match="run_in_guest"):
        auto.choose_here("vm", Needs())
