"""Profiles of third parties, good and bad."""

from importlib.metadata import EntryPoint

from meshwatchd.adapters.sources.plugins import GROUP, load
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Link, Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles import INTERFACE, MeshKind
from meshwatchd.profiles.compose import JOINING, LOOKS, look

NODE = NodeName("b1")


def point(name, value):
    """What a package's metadata says."""
    return EntryPoint(name=name, value=f"tests.unit.adapters.sources.test_plugins:{value}", group=GROUP)


def good(snapshot, sources, declared, node):
    """A profile as somebody may write it."""
    return LocalView(profiles=("skupper",), node=node, location=LocationName("east"))


def raising(snapshot, sources, declared, node):
    """One with a mistake."""
    return snapshot.nothing_of_this_name


def answering_otherwise(snapshot, sources, declared, node):
    """One that did not read how."""
    return {"profiles": ("x",)}


NO_FUNCTION = 7


def seen(*points):
    """The composed view with these."""
    return look(Snapshot(), Sources(), MeshSettings(), NODE, looks=load(points).looks)


OLD = MeshKind(interface=INTERFACE - 1, look=good)
KIND = MeshKind(interface=INTERFACE, look=good)


def plain(snapshot, sources, declared, node):
    """One whose device any WireGuard would be."""
    return LocalView(profiles=("hexmesh",), node=node, wireguard_device="hex0", overlay_device="hex0", traits=("star",))


def test_a_profile_of_a_third_party_takes_part():
    """Behind what runs over any CNI and before the CNIs; as a kind of this interface, or as a function."""
    loaded = load([point("skupper", "KIND")])

    assert ["kilo", "submariner", "skupper", *(name for name in LOOKS if name not in JOINING)] == list(loaded.looks)
    assert (("skupper",), "east") == (seen(point("skupper", "KIND")).profiles, seen(point("s", "good")).location)
    assert {} == loaded.problems


def test_the_device_of_a_third_party_is_no_plain_one():
    """Its profile knows whose it is, so no other WireGuard device is taken for the mesh's."""
    links = tuple(
        Link(name=n, index=i, kind="wireguard", is_up=True, mtu_bytes=1420) for i, n in ((3, "a0"), (4, "hex0"))
    )
    view = look(Snapshot(links=links), Sources(), MeshSettings(), NODE, looks=load([point("hexmesh", "plain")]).looks)

    assert (("hexmesh",), "hex0", ("star",)) == (view.profiles, view.wireguard_device, view.traits)
    assert ("wireguard",) == look(Snapshot(links=links), Sources(), MeshSettings(), NODE).profiles


def test_one_that_cannot_be_used_says_why_and_harms_nobody():
    """Every way to be broken."""
    points = (
        point("absent", "nothing"),
        point("kilo", "good"),
        point("old", "OLD"),
        point("other", "answering_otherwise"),
        point("raising", "raising"),
        point("twice", "good"),
        point("twice", "plain"),
        point("value", "NO_FUNCTION"),
    )
    view = seen(*points)

    told = {f"{each.source.partition(' (')[0]}: {each.text}" for each in view.why if each.source.startswith("profile")}
    assert () == view.profiles
    assert {
        "profile kilo: its name is that of a built-in profile, which is used: remove the package",
        "profile old: is for interface 0 of profiles, and this is 1: install a version for it",
        "profile other: answered with no LocalView",
        "profile twice: 2 packages offer this name, and none of them is used: remove all but one",
        "profile value: is an object of type int; offer a meshwatchd.profiles.MeshKind, or a function",
    } == {text for text in told if "AttributeError" not in text}
    assert 2 == sum("AttributeError" in text for text in told)
    assert ["absent", "kilo", "old", "twice", "twice", "value"] == [
        source.split()[1] for source in load(points).problems
    ]


def test_what_is_installed_is_asked():
    """Nothing here brings any."""
    assert list(LOOKS) == list(load().looks)
    assert {} == load().problems


def test_a_package_that_cannot_be_read_ends_nothing(tmp_path, monkeypatch):
    """It offers nothing; the agent goes on with what is built in."""
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert set(LOOKS) <= set(load().looks)
