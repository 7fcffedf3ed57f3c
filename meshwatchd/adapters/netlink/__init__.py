"""The kernel's routing state: read as a whole, watched, and changed where it is ours.

agent    requests: kernel; state: dumper, monitor --> mirror --> view --> Snapshot; standing objects: provision, sweep
engine   overrides: switch, which needs none of the others
"""
