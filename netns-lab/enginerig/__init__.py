"""A rig that runs the probe engine's own parts on made-up sessions, for benchmarks.

The lab judges the product from outside and imports nothing of it (import-linter holds it to that), so what has to
import both worlds lives here: `python -m enginerig CONFIG.json` is a process like any other to `netnslab.bench`.

    netnslab.bench  -- CONFIG.json -->  enginerig: runtime.loop.Loop, runtime.effects.Effects,
                    <-- events.jsonl --             core.schedule, core.session, core.group, core.suspicion

What is replaced is what a mesh would decide: topology, layout and conductors. `engine.RigEngine` gives the loop
sessions that the configuration lists, judges them in groups, and asks for a prepared rule when a group goes down.
"""
