"""Sysctls and counters of this host, read from /proc."""
