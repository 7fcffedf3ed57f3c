"""STAMP with equipment of other makers, in both roles; apart from the probes of the mesh, which trust nobody else.

reflector    answers their senders, in the engine's loop
sessions     what it remembers of each, and what it will not answer twice
gate         who gets through to it, decided in the kernel
sender       asks their reflectors, for `meshwatchctl stamp`
measurement  what the answers say
loss         on which way packets were lost
spread       statistics of delays, and jitter by direction
clock_reading  two clocks at one instant
host         this node's clock and addresses, as answers quote them
"""
