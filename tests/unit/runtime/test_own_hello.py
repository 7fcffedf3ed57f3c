"""What a node tells of itself beside its view."""

from __future__ import annotations

import msgspec
import pytest

from meshwatchd.model.errors import ConfigError
from meshwatchd.model.settings import SECOND, DaemonSettings, DiscoverySettings, Mode, Settings
from meshwatchd.model.snapshot import WireGuardState
from meshwatchd.runtime.clocks import Clocks
from meshwatchd.runtime.own_hello import OwnHello
from meshwatchd.runtime.reflexive import Reflexive
from tests.support import hellos
from tests.support.discovery_stage import Time

KEY = "k" * 43 + "="


def _own(standby_key=lambda: KEY, *, mode=Mode.ENFORCE, endpoint="", complaints=None, time=None, leads_since_ns=0):
    time = time or Time()
    return OwnHello(
        Settings(daemon=DaemonSettings(mode=mode), discovery=DiscoverySettings(endpoint=endpoint)),
        standby_key=standby_key,
        reflexive=Reflexive(),
        clocks=Clocks(monotonic_ns=time.monotonic_ns, wall_ns=time.wall_ns),
        complain=([] if complaints is None else complaints).append,
        leads_since_ns=leads_since_ns,
    )


def test_the_key_is_made_once_and_where_it_is_used():
    """Some milliseconds of arithmetic each time; a node that only observes relays nothing."""
    made = []

    def make():
        made.append(KEY)
        return KEY

    own = _own(make)
    told = [own.make(hellos.view("a1"), (), ()).standby_public_key for _ in range(2)]
    assert ([KEY, KEY], [KEY]) == (told, made)
    assert "" == _own(make, mode=Mode.OBSERVE).make(hellos.view("a1"), (), ()).standby_public_key
    assert [KEY] == made


def test_a_key_that_cannot_be_read_is_asked_for_again():
    """Its mode may be put right; meanwhile the node is known and relays nothing."""
    complaints: list[str] = []
    answers = [ConfigError("standby.key", "standby.private_key_file", "is open to everybody", "chmod"), KEY]

    def make():
        if isinstance(answer := answers.pop(0), ConfigError):
            raise answer
        return answer

    own = _own(make, complaints=complaints)
    assert "" == own.make(hellos.view("a1"), (), ()).standby_public_key
    assert KEY == own.make(hellos.view("a1"), (), ()).standby_public_key
    assert ["is open to everybody" in each for each in complaints] == [True]


def test_a_leader_says_since_when():
    """By the wall clock, over a restart, and anew once it has led no more."""
    time = Time()
    own, leader, member = _own(time=time, leads_since_ns=7), hellos.view("a1"), hellos.view("a1", is_leader=False)
    since = [own.make(view, (), ()).leads_since_ns for view in (leader, member, leader)]
    began_ns = time.wall_ns()
    time.now += SECOND

    assert [7, 0, began_ns, began_ns] == [*since, own.make(leader, (), ()).leads_since_ns]


@pytest.mark.parametrize(
    ("endpoint", "public", "expected"),
    [("192.0.2.7", "203.0.113.1", "192.0.2.7"), ("", "203.0.113.1", "203.0.113.1"), ("", "", "")],
)
def test_the_operators_word_about_the_endpoint_is_the_last(endpoint, public, expected):
    """Then the view's, then what peers have seen."""
    own = _own(endpoint=endpoint)

    assert expected == own.make(hellos.view("a1", public_endpoint=public), (), ()).standby_endpoint


def test_the_tunnel_is_that_of_the_view():
    """A node may have other WireGuard devices; and reasons are for this node's operator."""
    tunnels = tuple(
        WireGuardState(device=device, public_key=f"key-of-{device}", listen_port=port, at_ns=0, peers=())
        for device, port in (("wg0", 1), ("kilo0", 51820))
    )
    hello = _own().make(msgspec.structs.replace(hellos.view("a1"), contradictions=("x",)), tunnels, ())

    assert ("key-of-kilo0", 51820, ()) == (hello.tunnel_public_key, hello.tunnel_port, hello.view.contradictions)
    without = _own().make(hellos.view("a1"), tunnels[:1], ())
    assert ("", 0) == (without.tunnel_public_key, without.tunnel_port)
