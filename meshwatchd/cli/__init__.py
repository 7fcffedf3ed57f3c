"""meshwatchctl: what an operator asks the daemon, and how the answer looks.

A client of the control socket and nothing more: it holds no state, reads no kernel tables (but for `sweep`,
which must work without a daemon), and prints either a table for people or JSON for programs from one and the
same reply. Exit codes are part of the interface: 0 ok, 1 degraded, 2 critical, 3 daemon unreachable.
"""
