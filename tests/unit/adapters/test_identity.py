"""The identity of a node: drawn once, kept privately, and worth nothing without its seed."""

from __future__ import annotations

import stat
import time

import msgspec
import pytest

from meshwatchd.adapters.identity import NodeIdentity, is_signed_by, load_identity, read_binding
from meshwatchd.adapters.storage import mesh_file
from meshwatchd.core.membership.identities import GRACE_NS, Step
from meshwatchd.model.errors import ConfigError
from meshwatchd.model.identity import PublicIdentity
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.hello import rotation_text

A1, B1 = NodeIdentity(b"a" * 32), NodeIdentity(b"b" * 32)


def test_a_seed_is_drawn_once_and_kept_private(tmp_path):
    """Every start of a node finds what the first one has made."""
    made = load_identity(tmp_path / "state")

    assert made.public == load_identity(tmp_path / "state").public
    assert 0o600 == stat.S_IMODE((tmp_path / "state" / "identity.key").stat().st_mode)
    assert (b"", b"") == (made.former, made.voucher)


def test_a_seed_that_others_may_read_is_refused(tmp_path):
    """Whoever has read it can be this node."""
    load_identity(tmp_path)
    (tmp_path / "identity.key").chmod(0o644)

    with pytest.raises(ConfigError, match=r"identity\.key"):
        load_identity(tmp_path)


def test_only_the_owner_of_a_key_signs_with_it():
    """Another node, another text, another signature, and bytes that are no key."""
    signature = A1.sign(b"text")

    assert is_signed_by(A1.public.signing, signature, b"text")
    for signing, made, text in (
        (B1.public.signing, signature, b"text"),
        (A1.public.signing, signature, b"other"),
        (A1.public.signing, bytes(64), b"text"),
        (b"short", signature, b"text"),
        (A1.public.signing, b"", b"text"),
    ):
        assert not is_signed_by(signing, made, text)


def test_a_seed_makes_the_same_identity_in_each_version():
    """Computed with another library: a node that is upgraded is the one that its peers remember."""
    assert "2f5884626fde1a19c28b954eb3b241eb6bdc296e87646f445c4adfa8dab4a5f9" == A1.public.signing.hex()
    assert "5ef934c181fd46e5b85db4fd9ccc04201bd75a6c65539cd972807de12cea051d" == A1.public.exchange.hex()
    assert "d122b7c054348fabd83971ba0fecf5b59d7e55600cccd7a949e8ad854d199115" == A1.share(B1.public).hex()
    assert A1.sign(b"text").hex().startswith("a461c783b7d7682a8fcd025d4241e4d8")


def test_two_nodes_share_what_a_third_cannot_compute():
    """Whatever the third one knows of both."""
    thief = NodeIdentity(b"t" * 32)

    assert A1.share(B1.public) == B1.share(A1.public)
    assert 32 == len(A1.share(B1.public))
    assert 4 == len({A1.share(B1.public), thief.share(A1.public), thief.share(B1.public), A1.share(A1.public)})


def test_a_key_that_makes_the_same_secret_with_everybody_makes_none():
    """Points of small order give zeros (RFC 7748 section 6.1): everybody could sign for such a pair."""
    assert b"" == A1.share(PublicIdentity(signing=B1.public.signing, exchange=bytes(32)))
    assert b"" == A1.share(PublicIdentity(signing=B1.public.signing, exchange=b"short"))


def test_a_renamed_seed_vouches_for_the_next_one(tmp_path):
    """Rename the file and restart: that is the whole rotation."""
    first = load_identity(tmp_path)
    (tmp_path / "identity.key").rename(tmp_path / "identity.former.key")
    second = load_identity(tmp_path)

    assert first.public != second.public
    assert first.public.signing == second.former
    assert is_signed_by(first.public.signing, second.voucher, rotation_text(second.public))


def test_another_process_of_the_node_signs_as_the_daemon_does(tmp_path):
    """A bisection's probes are answered by a peer that takes nothing but the pair's key."""
    assert () == read_binding(tmp_path, "a1", "b1")
    own = load_identity(tmp_path)
    assert () == read_binding(tmp_path, "a1", "b1")
    known = [
        mesh_file.KeptIdentity(name=NodeName(name), identity=B1.public, step=step, since_ns=0, heard_ns=0)
        for name, step in (("b1", Step.SIGNS), ("b2", Step.STRANGE))
    ]
    for identity, bound in ((own.public, 1), (A1.public, 0)):
        kept = mesh_file.Kept(
            version=mesh_file.VERSION, node=NodeName("a1"), saved_ns=0, identity=identity, identities=tuple(known)
        )
        assert "" == mesh_file.save(tmp_path, kept)
        assert bound == len(read_binding(tmp_path, "a1", "b1"))

    mesh_file.save(tmp_path, msgspec.structs.replace(kept, identity=own.public))
    (binding,) = read_binding(tmp_path, "a1", "b1")
    assert (B1.share(own.public), True, True) == (binding.shared, binding.signs, binding.is_alone)
    assert not read_binding(tmp_path, "a1", "b2")[0].signs


@pytest.mark.parametrize(
    ("step", "age_ns", "is_alone"),
    [(Step.SIGNS, GRACE_NS, True), (Step.SIGNS, 0, False), (Step.HOLDS, GRACE_NS, False)],
)
def test_another_process_refuses_the_mesh_key_when_the_daemon_does(tmp_path, step, age_ns, is_alone):
    """A minute after the peer has said that it signs with the pair's key."""
    own, now_ns = load_identity(tmp_path), time.time_ns()
    b1 = mesh_file.KeptIdentity(
        name=NodeName("b1"), identity=B1.public, step=step, since_ns=now_ns - age_ns, heard_ns=now_ns
    )
    kept = mesh_file.Kept(
        version=mesh_file.VERSION, node=NodeName("a1"), saved_ns=0, identity=own.public, identities=(b1,)
    )
    assert "" == mesh_file.save(tmp_path, kept)

    assert [is_alone] == [each.is_alone for each in read_binding(tmp_path, "a1", "b1")]
