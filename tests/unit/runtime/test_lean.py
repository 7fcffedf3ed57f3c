"""What the agent leaves out of packages, seen in an interpreter of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

WHAT_AN_AGENT_IMPORTS = "import meshwatchd.runtime.agent_process"


def _loaded(*statements: str) -> set[str]:
    """The names of modules that are there after these statements."""
    program = "\n".join(
        (*statements, "import json, sys", "print(json.dumps([k for k, v in sys.modules.items() if v]))")
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout))


def test_of_a_package_only_the_parts_that_are_named_are_there():
    """pyroute2's face loads a data base, a file system and every kind of queueing: memory for good."""
    whole = _loaded(WHAT_AN_AGENT_IMPORTS)
    parts = _loaded(
        "from meshwatchd.runtime.lean import load_parts_of", "load_parts_of('pyroute2')", WHAT_AN_AGENT_IMPORTS
    )

    assert {"pyroute2.ndb.main", "pyroute2.ipset", "sqlite3"} <= whole
    assert not {"pyroute2.ndb.main", "pyroute2.ipset", "sqlite3"} & parts
    assert {"pyroute2.iproute.linux", "pyroute2.netlink.diag"} <= parts


def test_a_module_that_is_left_out_is_not_there_for_anybody():
    """As where it was never installed."""
    with pytest.raises(subprocess.CalledProcessError):
        _loaded("from meshwatchd.runtime.lean import leave_out", "leave_out('rich')", "import rich")


def test_a_package_that_is_loaded_or_not_there_is_left_alone():
    """The import that needs it says what is missing."""
    there = _loaded("import json", "from meshwatchd.runtime.lean import load_parts_of", "load_parts_of('json')")

    assert "json.decoder" in there
    assert "no_such_package" not in _loaded(
        "from meshwatchd.runtime.lean import load_parts_of", "load_parts_of('no_such_package')"
    )


def test_a_module_that_is_stood_in_for_is_empty():
    """Whatever a package takes from it is None."""
    program = "from meshwatchd.runtime.lean import stand_in", "stand_in('msgspec.inspect', 'msgspec._json_schema')"
    parts = _loaded(*program, "import msgspec", "assert msgspec.json.schema is None", "msgspec.json.encode({})")

    assert "msgspec.json" in parts
    assert "textwrap" not in parts
