"""The picture of Nodes follows the API by changes alone, and knows when it does not."""

from __future__ import annotations

import random
import time
from typing import cast

import pytest

from meshwatchkube.http import Http, connect
from meshwatchkube.pace import Backoff
from meshwatchkube.watch import NodeWatch
from netnslab.kube_api.resources import NODES
from tests.support.kube import SECOND, Log, eventually, node_object, served


class _Hasty(Backoff):
    """Tries again at once, so that tests need not wait."""

    def failed(self, why, now):
        super().failed(why, now)
        return SECOND // 50


@pytest.fixture
def log():
    """What is logged."""
    return Log()


@pytest.fixture
def start(log):
    """Starts watches that end with the test."""
    watches = []

    def make(api, only=""):
        backoff = _Hasty("nodes", log, random.Random(1))
        watch = NodeWatch(connect(str(api.kubeconfig), 1), backoff, time.monotonic_ns, only)
        watch.start()
        watches.append(watch)
        return watch

    yield make
    for watch in watches:
        watch.stop()


def _names(watch):
    return sorted(watch.picture(60 * SECOND)[0])


def _label(api, name, value):
    def labelled(before):
        return {**before, "metadata": {**before["metadata"], "labels": {"x": value}}}

    api.store.edit(NODES, name, "", labelled)


def test_changes_are_followed_by_one_list_and_one_watch(tmp_path, start):
    """Nodes that come, change and go."""
    with served(tmp_path) as api:
        watch = start(api)
        eventually(lambda: 6 == len(_names(watch)), "the list")
        api.store.create(NODES, node_object("b4"))
        api.store.delete(NODES, "a1")
        _label(api, "b1", "1")
        eventually(lambda: ["a2", "a3", "b1", "b2", "b3", "b4"] == _names(watch), "what came and went")
        eventually(lambda: {"x": "1"} == watch.picture(SECOND)[0]["b1"].labels, "the label")
        assert {("list", "nodes"): 1, ("watch", "nodes"): 1} == dict(api.asked)


def test_one_node_is_watched_alone(tmp_path, start):
    """By those that write nothing."""
    with served(tmp_path) as api:
        watch = start(api, "b2")
        eventually(lambda: ["b2"] == _names(watch), "the node")
        _label(api, "b1", "1")
        _label(api, "b2", "1")
        eventually(lambda: {"x": "1"} == watch.picture(SECOND)[0]["b2"].labels, "the label")
        assert ["b2"] == _names(watch)


def test_bookmarks_keep_a_picture_fresh_and_silence_makes_it_stale(tmp_path, start):
    """Nothing happens in the cluster in either case."""
    with served(tmp_path) as api:
        watch = start(api)
        eventually(lambda: watch.picture(SECOND)[1], "the first word")
        began = time.monotonic()
        while time.monotonic() - began < 1:
            assert watch.picture(SECOND)[1]
            time.sleep(0.05)
    eventually(lambda: not watch.picture(SECOND)[1], "silence to be noticed")
    assert 6 == len(_names(watch)), "what was known stays known"


def test_a_version_that_is_gone_is_listed_anew(tmp_path, start, log):
    """The watch was away for longer than the API server remembers."""
    with served(tmp_path, history=3) as api:
        watch = start(api)
        eventually(lambda: 6 == len(_names(watch)), "the list")
        api.failing["watch", "nodes"] = 500
        for number in range(9):
            _label(api, "b1", str(number))
        watch.stop()
        stale = start(api)
        stale._version = "3"  # as after a long time without the API
        api.failing.clear()
        eventually(lambda: 6 == len(_names(stale)), "another list")
        eventually(lambda: {"x": "8"} == stale.picture(SECOND)[0]["b1"].labels, "what was missed")


def test_failures_are_reported_once_and_tried_again(tmp_path, start, log):
    """500 for a while, then all is well."""
    with served(tmp_path) as api:
        api.failing["list", "nodes"] = 500
        watch = start(api)
        eventually(lambda: 3 <= api.asked["list", "nodes"], "some attempts")
        assert ["api.failed"] == log.events()
        assert not watch.picture(60 * SECOND)[1]
        api.failing.clear()
        eventually(lambda: watch.picture(60 * SECOND)[1], "the list")
        assert ["api.failed", "api.recovered"] == log.events()


def test_a_version_that_is_refused_is_not_asked_for_for_ever(tmp_path, log):
    """As of an etcd that was restored, or with an error of the server about one event: only a list goes around it."""
    with served(tmp_path) as api:
        backoff = _Hasty("nodes", log, random.Random(1))
        watch = NodeWatch(connect(str(api.kubeconfig), 1), backoff, time.monotonic_ns)
        watch._version = "broken"
        watch.start()
        eventually(lambda: 6 == len(_names(watch)), "a list")
        _label(api, "b1", "1")
        eventually(lambda: {"x": "1"} == watch.picture(60 * SECOND)[0]["b1"].labels, "what happens after it")
        eventually(lambda: ["api.failed", "api.recovered"] == log.events(), "one line each")
        watch.stop()


class _Mute:
    """An API server that ends each watch at once."""

    def __init__(self, http):
        self.watches, self._http = 0, http
        self.send, self.interrupt, self.close = http.send, http.interrupt, http.close

    def lines(self, _path, _parameters):
        """None."""
        self.watches += 1
        return iter(())


def test_a_watch_that_ends_without_a_word_is_not_begun_again_at_once(tmp_path, log):
    """A server that is stopping answers so, hundreds of times a second if it is asked that often."""
    with served(tmp_path) as api:
        mute, backoff = _Mute(connect(str(api.kubeconfig), 1)), Backoff("nodes", log, random.Random(1))
        watch = NodeWatch(cast("Http", mute), backoff, time.monotonic_ns)
        watch.start()
        eventually(lambda: ["api.failed"] == log.events(), "the first one")
        watch.stop()
        assert 1 == mute.watches
