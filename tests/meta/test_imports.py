"""The engine process stays light: what import-linter proves on paper is checked in a real interpreter.

import-linter sees our own imports; only sys.modules sees what a library drags in behind them.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.meta.tree import ROOT

# Why each is banned is written at the contract "engine" in pyproject.toml.
BANNED = ("asyncio", "click", "dns", "prometheus_client", "nacl", "pyroute2", "rich", "scapy", "structlog", "wgconfig")
# What reading a configuration needs, and what comes with it: 1.5 MiB that are the reader's, not the engine's.
ONLY_READ = ("argparse", "base64", "logging", "secrets", "tomllib", "traceback", "meshwatchd.config")
# What canaries of kinds dns, tls and http need: the agent has it, and dns with the second once it asks for one.
WITH_CANARIES = ("ssl", "meshwatchd.adapters.service_prober")
# What an agent needs on demand only, or never.
NOT_AT_REST = ("click", "dns", "prometheus_client", "scapy", "tomllib", "meshwatchd.config.load", WITH_CANARIES[1])
PURE = (*BANNED, "socket", "subprocess", "threading")


def _modules_loaded_by(statement: str) -> set[str]:
    """The names in sys.modules of a new interpreter after the statement."""
    script = f"{statement}\nimport sys\nprint('\\n'.join(sys.modules))"
    # -S: without site, nothing that happens to be installed can load modules on its own; hence the path.
    path = [str(ROOT), *sys.path]
    program = f"import sys; sys.path[:0] = {path!r}\n{script}"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, check=True, text=True)
    return set(done.stdout.split())


def test_engine_process_loads_nothing_that_blocks_or_swells():
    """Importing the engine process loads no netlink library, no scapy, no asyncio, no logging framework."""
    loaded = _modules_loaded_by("import meshwatchd.runtime.engine_process")

    assert [] == sorted(loaded.intersection({*BANNED, *ONLY_READ, *WITH_CANARIES}))


def test_agent_process_loads_nothing_that_it_needs_on_demand_only():
    """Its memory at rest is a promise; what reads configurations, offers metrics or is a stranger's waits."""
    loaded = _modules_loaded_by("import meshwatchd.runtime.agent_process")

    assert [] == sorted(loaded.intersection(NOT_AT_REST))


def test_engine_process_generates_no_code():
    """Dataclasses compile methods for each class, and load inspect, ast and dis for it; those of Structs are in C.

    typing_extensions, which msgspec loads where something has installed it, does the same.
    """
    loaded = _modules_loaded_by('sys.modules["typing_extensions"] = None\nimport meshwatchd.runtime.engine_process')

    assert [] == sorted(loaded.intersection({"dataclasses", "inspect", "ast", "dis", "tokenize"}))


@pytest.mark.parametrize("package", ["model", "core", "wire", "profiles"])
def test_pure_packages_load_nothing_of_the_world(package):
    """Importing all of a pure package loads no module that waits, opens or logs."""
    folder = ROOT / "meshwatchd" / package
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(folder.rglob("*.py"))
    ]
    loaded = _modules_loaded_by("import " + ", ".join(modules))

    # What the standard library and msgspec load for themselves is theirs.
    by_others = _modules_loaded_by("import msgspec, ipaddress, enum, dataclasses, hmac, hashlib, random, typing")

    assert [] == sorted((loaded - by_others).intersection(PURE))
