"""What has to be known of a kind of mesh is no matter of its name."""

from meshwatchd.model.mesh_profile import MESH_KINDS, TRAITS, Trait, traits_of


def test_traits_are_those_of_all_kinds_and_of_what_is_told():
    """A third party tells its own; those of a built-in kind are known of nodes of any version."""
    assert {"star", "pod-addressed", "without-standby", "detour"} == traits_of(("submariner",))
    assert {Trait.REPLACES_ROUTES, Trait.STAR} == traits_of(("kilo", "flannel", "hexmesh"), ("star",))
    assert frozenset() == traits_of(())
    assert set(TRAITS) <= set(MESH_KINDS)
