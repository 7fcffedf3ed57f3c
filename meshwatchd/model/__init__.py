"""The vocabulary: what the rest of the program talks about, and nothing it does.

Frozen types, units, identifiers, the fault catalogue, and the settings with the reason for every default.
A value from here may cross a process, a socket, a file or a journal, and means the same on the other side;
so a type lives here as soon as two packages need it, and it never holds an open file, a callback or a clock.
All but one: the door (`decoding`) counts and reports the bytes that it refuses, since every package decodes some.
Times are integer nanoseconds, sizes are bytes, and the name says so.
"""
