"""Who is probed, when, and within which packet budget.

`session_plan` lays out which sessions there are, `session_kinds` what those of one kind share, `intervals` how often
each kind is due, `schedule` when each probe leaves, by the places of the `grid`, `timeouts` how long an answer is
waited for. `packet_budget` and `overload` bound all of it.

In: a plan of paths, time, session outcomes. Out: `SendProbe` commands and missed answers.
"""
