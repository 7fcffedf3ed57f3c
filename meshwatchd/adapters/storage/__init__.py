"""Files that outlive a process: policy, the mesh as it was known, events, and the engine's journal.

Each is a convenience and never the truth. A file that is corrupt, too large or of another version is moved aside, the
reason is reported, and the daemon starts without it.
"""
