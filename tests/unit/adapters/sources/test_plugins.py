"""Profiles of third parties, good and bad."""

from importlib.metadata import EntryPoint

from meshwatchd.adapters.sources.plugins import GROUP, load
from meshwatchd.model.discovery import LocalView
from meshwatchd.model.ids import LocationName, NodeName
from meshwatchd.model.settings import MeshSettings
from meshwatchd.model.snapshot import Snapshot
from meshwatchd.model.sources import Sources
from meshwatchd.profiles.compose import LOOKS, look

NODE = NodeName("b1")


def point(name, value):
    """What a package's metadata says."""
    return EntryPoint(name=name, value=f"tests.unit.adapters.sources.test_plugins:{value}", group=GROUP)


def good(snapshot, sources, declared, node):
    """A profile as somebody may write it."""
    return LocalView(profiles=("liqo",), node=node, location=LocationName("east"))


def raising(snapshot, sources, declared, node):
    """One with a mistake."""
    return snapshot.nothing_of_this_name


def answering_otherwise(snapshot, sources, declared, node):
    """One that did not read how."""
    return {"profiles": ("x",)}


NO_FUNCTION = 7


def seen(*points):
    """The composed view with these."""
    return look(Snapshot(), Sources(), MeshSettings(), NODE, looks=load(points))


def test_a_profile_of_a_third_party_takes_part():
    """Behind the built-in ones, by name."""
    looks = load([point("liqo", "good")])

    assert [*LOOKS, "liqo"] == list(looks)
    assert (("liqo",), "east") == (seen(point("liqo", "good")).profiles, seen(point("s", "good")).location)


def test_one_that_cannot_be_used_says_why_and_harms_nobody():
    """Every way to be broken."""
    view = seen(
        point("absent", "nothing"),
        point("kilo", "good"),
        point("other", "answering_otherwise"),
        point("raising", "raising"),
        point("value", "NO_FUNCTION"),
    )

    told = [f"{each.source.partition(' (')[0]} {each.text}" for each in view.why if each.source.startswith("profile")]
    assert () == view.profiles
    assert [
        "profile absent cannot be loaded: AttributeError",
        "profile kilo its name is that of a built-in profile",
        "profile other answered with no LocalView",
        "profile raising failed: AttributeError",
        "profile value is no function",
    ] == [text.partition(": ")[0] + (": AttributeError" if "AttributeError" in text else "") for text in told]


def test_what_is_installed_is_asked():
    """Nothing here brings any."""
    assert list(LOOKS) == list(load())


def test_a_package_that_cannot_be_read_ends_nothing(tmp_path, monkeypatch):
    """It offers nothing; the agent goes on with what is built in."""
    (tmp_path / "broken-1.dist-info" / "entry_points.txt").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path))

    assert set(LOOKS) <= set(load())
