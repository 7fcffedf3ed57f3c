"""The engine's inputs on file, so that every decision can be had once more, step by step.

    journal-000007.state     the whole engine as it was, and when
    journal-000007.events    everything it was given from then on, and what it decided
    journal-000008.state     ... the ring goes on; the oldest pair is removed

The core is a function of its inputs: the same engine, given the same events at the same instants, says the same. So
a segment is a checkpoint and the events after it, and `meshwatchctl replay` runs the core over them and holds what it
says against what was said.

Writing costs the engine about a microsecond an event: it goes into a buffer, and from there into a memory file system
(`daemon.runtime_dir`). A checkpoint of hundreds of sessions would take longer than a probe may wait, so a child makes
it: after fork() it holds the engine still, while the parent goes on.
"""
