"""A rig that runs the probe engine's own parts on made-up sessions, for benchmarks.

The lab judges the product from outside and imports nothing of it (import-linter holds it to that), so what has to
import both worlds lives here: `python -m enginerig CONFIG.json` is a process like any other to `netnslab.bench`.

    netnslab.bench  -- CONFIG.json -->  enginerig: runtime.loop.Loop, runtime.effects.Effects,
                    <-- events.jsonl --             core.probing, core.session, core.failover.confirm_burst

What is replaced is what a mesh would decide: topology, layout and controllers of pairs. `engine.RigEngine` gives the
loop sessions that the configuration lists, judges them in groups, and asks for a prepared rule when a group goes down.
"""

import sys

# typing_extensions comes with mypy, and msgspec loads it where it is installed, with inspect, ast and dis: 0.8 MiB that
# an installed daemon does not have. While a package is being run its name is "-m"; whoever imports it is left alone.
if sys.argv[0] == "-m":
    sys.modules.setdefault("typing_extensions", None)  # type: ignore[arg-type]
