"""Packet sockets that see probes pass a device, whoever wraps them.

filter      what passes, decided in the kernel: a program of classic BPF
tap         one socket on one device
decode      captured bytes -> outer and inner headers
marks       which run a probe belongs to, and which series
taps        overlay device and lower device together, counted
questions   which devices there are, and where packets go, over rtnetlink

A bisection uses them for its own probes, the agent for those of a peer that asks for it.
"""
