"""Key derivation and tags against published vectors; keys bound to pair and direction; rotation without loss."""

from __future__ import annotations

import hashlib
import hmac
import itertools

import pytest

from meshwatchd.model.identity import PairBinding
from meshwatchd.model.ids import NodeName
from meshwatchd.wire.auth import (
    BOUND,
    KeyRole,
    MacKey,
    MeshKeys,
    MeshSecret,
    derive_key,
    hkdf_expand,
    hkdf_extract,
    key_id,
    node_id,
)

OLD, NEW = bytes(range(32)), bytes(range(100, 132))

RFC5869 = [
    pytest.param(
        ("0b" * 22, "000102030405060708090a0b0c", "f0f1f2f3f4f5f6f7f8f9"),
        "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        id="A.1",
    ),
    pytest.param(
        (bytes(range(0x50)).hex(), bytes(range(0x60, 0xB0)).hex(), bytes(range(0xB0, 0x100)).hex()),
        "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
        "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
        "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        id="A.2",
    ),
    pytest.param(
        ("0b" * 22, "", ""),
        "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        id="A.3",
    ),
]


@pytest.mark.parametrize(("inputs", "extracted", "expanded"), RFC5869)
def test_hkdf_matches_the_vectors_of_rfc_5869(inputs, extracted, expanded):
    """Appendix A, the three cases with SHA-256."""
    secret, salt, info = (bytes.fromhex(text) for text in inputs)
    key = hkdf_extract(salt, secret)

    assert extracted == key.hex()
    assert expanded == hkdf_expand(key, info, len(expanded) // 2).hex()


@pytest.mark.parametrize(
    ("key", "data", "tag"),
    [
        (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b"),
        (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"),
        (
            b"\xaa" * 131,
            b"Test Using Larger Than Block-Size Key - Hash Key First",
            "60e431591ee0b67f0d8a26aacbf5b77f",
        ),
    ],
)
def test_tags_match_the_vectors_of_rfc_4231(key, data, tag):
    """Cases 1, 2 and 6, truncated to 128 bits; split anywhere, the tag is the same."""
    mac = MacKey(key)

    assert tag == mac.tag(data).hex()
    assert tag == mac.tag(data[:3], data[3:]).hex()
    assert mac.is_tag_of(bytes.fromhex(tag), data)
    assert not mac.is_tag_of(bytes.fromhex(tag), data + b"!")


def test_a_key_can_be_used_many_times():
    """The kept hash states are copied, not consumed."""
    mac = MacKey(OLD)

    assert 1 == len({mac.tag(b"x") for _ in range(3)})
    assert hmac.digest(OLD, b"x", "sha256")[:16] == mac.tag(b"x")


def test_both_ends_hold_the_same_keys_crosswise():
    """What one signs with is what the other checks with."""
    ours, theirs = (
        MeshKeys(own, [MeshSecret(secret=OLD)]).add_peer(peer) for own, peer in (("a1", "b1"), ("b1", "a1"))
    )

    assert theirs.receive.is_tag_of(ours.send.tag(b"x"), b"x")
    assert ours.receive.is_tag_of(theirs.send.tag(b"x"), b"x")
    assert not ours.receive.is_tag_of(ours.send.tag(b"x"), b"x"), "a reflected packet must not verify"


def test_each_pair_direction_and_secret_has_its_own_key():
    """Names of different lengths must not run into each other either."""
    keys = {
        derive_key(secret, signer=signer, receiver=receiver)
        for secret in (OLD, NEW)
        for signer, receiver in (("a", "bc"), ("ab", "c"), ("bc", "a"), ("c", "ab"), ("a", "b"), ("b", "a"))
    }

    assert 12 == len(keys)


def test_derived_values_never_change():
    """They are part of the wire format: nodes of different releases must agree on them."""
    assert (
        "dd6f7cb196feb3ffc1afd36d38c44ac35671b67a7d1ef9df191bc5e5095f38be"
        == derive_key(OLD, signer="a1", receiver="b1").hex()
    )
    assert 121 == key_id(OLD)
    assert 0xF55F_F16F_66F4_3360 == node_id("a1")


def test_a_rotation_loses_nothing_at_any_step():
    """Old alone, both with old active, both with new active, new alone: neighbours on the way always understand."""
    active, accepted = KeyRole.ACTIVE, KeyRole.RECEIVE_ONLY
    steps = [
        [MeshSecret(secret=OLD)],
        [MeshSecret(secret=OLD), MeshSecret(secret=NEW, role=accepted)],
        [MeshSecret(secret=OLD, role=accepted), MeshSecret(secret=NEW, role=active)],
        [MeshSecret(secret=NEW)],
    ]
    for before, after in itertools.pairwise(steps):
        a1, b1 = MeshKeys("a1", before), MeshKeys("b1", after)
        a1.add_peer("b1")
        b1.add_peer("a1")
        for sender, receiver, name in ((a1, b1, "a1"), (b1, a1, "b1")):
            used = sender.sending("b1" if name == "a1" else "a1")
            found = receiver.receiving(node_id(name), used.key_id)

            assert found is not None
            assert found.receive.is_tag_of(used.send.tag(b"x"), b"x")


def test_a_running_node_changes_its_secrets():
    """Roles are swapped, then the old one is dropped; what stays is not derived again."""
    keys = MeshKeys("a1", [MeshSecret(secret=OLD)])
    old = keys.add_peer("b1")
    keys.replace([MeshSecret(secret=NEW), MeshSecret(secret=OLD, role=KeyRole.RECEIVE_ONLY)])

    assert (key_id(NEW), key_id(NEW)) == (keys.signing_id, keys.sending("b1").key_id)
    assert old is keys.receiving(node_id("b1"), key_id(OLD))
    assert tuple(sorted((key_id(OLD), key_id(NEW)))) == keys.accepted_ids
    new = keys.sending("b1")
    keys.replace([MeshSecret(secret=NEW)])
    assert new is keys.sending("b1")
    assert keys.receiving(node_id("b1"), key_id(OLD)) is None


def test_secrets_that_cannot_be_used_change_nothing():
    """A reload that fails leaves a node that works."""
    keys = MeshKeys("a1", [MeshSecret(secret=OLD)])
    pair = keys.add_peer("b1")
    with pytest.raises(ValueError, match="must be active"):
        keys.replace([])

    assert pair is keys.sending("b1")
    assert (key_id(OLD),) == keys.accepted_ids


def test_another_secret_with_the_same_key_id_is_another_secret():
    """One rotation in 256 gets the id of the secret before the last."""
    twin = _secret_with_the_key_id_of(OLD)
    keys = MeshKeys("a1", [MeshSecret(secret=OLD)])
    before = keys.add_peer("b1")
    keys.replace([MeshSecret(secret=twin)])

    assert before.key_id == keys.sending("b1").key_id
    assert not before.receive.is_tag_of(keys.sending("b1").receive.tag(b"x"), b"x")


def test_a_name_is_found_under_any_key():
    """For saying who has missed a rotation."""
    keys = MeshKeys("a1", [MeshSecret(secret=OLD)])
    keys.add_peer("b1")

    assert "b1" == keys.name(node_id("b1"))
    assert keys.name(node_id("b2")) is None


def test_strangers_and_dropped_peers_have_no_key():
    """Fail closed: no key, no answer."""
    keys = MeshKeys("a1", [MeshSecret(secret=OLD)])
    pair = keys.add_peer("b1")

    assert pair is keys.add_peer("b1"), "derived once"
    assert pair is keys.receiving(node_id("b1"), pair.key_id)
    assert keys.receiving(node_id("b2"), pair.key_id) is None
    assert keys.receiving(node_id("b1"), pair.key_id ^ 1) is None
    keys.remove_peer("b1")
    keys.remove_peer("never added")
    assert keys.receiving(node_id("b1"), pair.key_id) is None


def _secret_with_the_key_id_of(secret):
    for counter in range(10_000):
        candidate = hashlib.sha256(counter.to_bytes(4, "big")).digest()
        if key_id(candidate) == key_id(secret):
            return candidate
    raise AssertionError("unlucky")


@pytest.mark.parametrize(
    ("secrets", "remedy"),
    [
        ([MeshSecret(secret=b"short")], "head -c 32 /dev/urandom"),
        ([], "one secret must be active"),
        ([MeshSecret(secret=OLD, role=KeyRole.RECEIVE_ONLY)], "one secret must be active"),
        ([MeshSecret(secret=OLD), MeshSecret(secret=NEW)], "at most one more receive-only"),
        (
            [MeshSecret(secret=OLD), MeshSecret(secret=_secret_with_the_key_id_of(OLD), role=KeyRole.RECEIVE_ONLY)],
            "make another one",
        ),
    ],
)
def test_unusable_secrets_are_refused_with_a_remedy(secrets, remedy):
    """Each text tells the operator what to do."""
    with pytest.raises(ValueError, match=remedy):
        MeshKeys("a1", secrets)


def test_a_secret_does_not_show_in_its_repr():
    """Tracebacks and logs print reprs."""
    assert OLD.hex() not in repr(MeshSecret(secret=OLD))
    assert repr(OLD) not in repr(MeshSecret(secret=OLD))


def test_a_node_has_a_key_with_itself_that_fits_nothing_else():
    """Packets of other pairs do not verify under it, whoever they claim to come from, nor its own under theirs."""
    secret = MeshSecret(secret=OLD)
    own = MeshKeys("a1", [secret]).add_peer("a1")
    theirs = [
        MeshKeys(signer, [secret]).add_peer(receiver) for signer in ("a1", "b1") for receiver in ("a1", "b1", "a1a1")
    ]
    others = [pair for pair in theirs if (pair.send.tag(b"x"), pair.peer) != (own.send.tag(b"x"), "a1")]

    assert own.receive.is_tag_of(own.send.tag(b"data"), b"data")
    assert 5 == len(others)
    for pair in others:
        assert not own.receive.is_tag_of(pair.send.tag(b"data"), b"data")
        assert not pair.receive.is_tag_of(own.send.tag(b"data"), b"data")


SHARED = bytes(range(100, 132))


def _bound(own, peer, **state):
    keys = MeshKeys(own, [MeshSecret(secret=OLD)])
    keys.add_peer(peer)
    keys.bind([PairBinding(peer=NodeName(peer), shared=SHARED, **state)])
    return keys


def _verifies(signer, verifier, own, peer):
    """Whether what one end signs for the other is believed there, and the answer under the same key here."""
    key = signer.sending(peer)
    there = verifier.receiving(node_id(own), key.key_id)
    if there is None or not there.receive.is_tag_of(key.send.tag(b"probe"), b"probe"):
        return False
    return bool(key.receive.is_tag_of(there.send.tag(b"answer"), b"answer"))


STEPS: tuple[dict[str, bool], ...] = ({}, {"signs": True}, {"signs": True, "is_alone": True})


@pytest.mark.parametrize(("here", "there"), [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1), (2, 2)])
def test_neighbouring_steps_to_a_key_of_the_pair_understand_each_other(here, there):
    """The ends change one after the other, in any order."""
    a1, b1 = _bound("a1", "b1", **STEPS[here]), _bound("b1", "a1", **STEPS[there])

    assert _verifies(a1, b1, "a1", "b1")
    assert _verifies(b1, a1, "b1", "a1")


def test_who_has_the_mesh_secret_signs_for_no_pair():
    """Neither with the key that the mesh's secret makes, nor with the pair's of another."""
    victim = _bound("a1", "b1", signs=True, is_alone=True)
    forged = MeshKeys("b1", [MeshSecret(secret=OLD)])
    forged.add_peer("a1")
    assert not _verifies(forged, victim, "b1", "a1")

    forged.bind([PairBinding(peer=NodeName("a1"), shared=bytes(32), signs=True)])
    assert not _verifies(forged, victim, "b1", "a1")


def test_who_knows_the_pair_alone_is_not_admitted():
    """A node that was given another mesh secret is out, whatever it shares with some of them."""
    a1, b1 = _bound("a1", "b1", signs=True), _bound("b1", "a1", signs=True)
    b1.replace([MeshSecret(secret=NEW)])

    assert not _verifies(a1, b1, "a1", "b1")


def test_the_mesh_secret_changes_under_a_key_of_the_pair():
    """Both derivations follow, and what the key ids stand for stays apart."""
    a1, b1 = (_bound(own, peer, signs=True, is_alone=True) for own, peer in (("a1", "b1"), ("b1", "a1")))
    learn = [MeshSecret(secret=OLD), MeshSecret(secret=NEW, role=KeyRole.RECEIVE_ONLY)]
    sign = [MeshSecret(secret=NEW), MeshSecret(secret=OLD, role=KeyRole.RECEIVE_ONLY)]
    for secrets, end in itertools.product((learn, sign, [MeshSecret(secret=NEW)]), (a1, b1)):
        end.replace(secrets)
        assert _verifies(a1, b1, "a1", "b1")
        assert _verifies(b1, a1, "b1", "a1")
    assert key_id(NEW) == a1.sending("b1").secret_id == a1.signing_id
    assert key_id(NEW) ^ BOUND == a1.sending("b1").key_id


def test_a_forgotten_identity_takes_the_pair_back_to_the_mesh():
    """The next one begins where the first one did."""
    a1, b1 = _bound("a1", "b1", signs=True, is_alone=True), MeshKeys("b1", [MeshSecret(secret=OLD)])
    b1.add_peer("a1")
    assert not _verifies(b1, a1, "b1", "a1")

    a1.bind([PairBinding(peer=NodeName("b1"))])
    assert _verifies(a1, b1, "a1", "b1")
    assert _verifies(b1, a1, "b1", "a1")
    assert a1.receiving(node_id("b1"), key_id(OLD) ^ BOUND) is None


def test_two_secrets_whose_bound_ids_meet_are_refused():
    """A packet's key id must say which key it means."""
    first = key_id(OLD)
    other = next(
        made for made in (number.to_bytes(32, "big") for number in range(10**5)) if key_id(made) == first ^ BOUND
    )

    with pytest.raises(ValueError, match="same key id"):
        MeshKeys("a1", [MeshSecret(secret=OLD), MeshSecret(secret=other, role=KeyRole.RECEIVE_ONLY)])
