import socket

import pytest

from meshwatchd.adapters import bpf


def test_a_program_decides_what_a_socket_hears():
    """Only what has the byte 7 behind its UDP header."""
    program = [(bpf.LOAD_BYTE, 0, 0, bpf.UDP_HEADER_BYTES), (bpf.EQUAL, 1, 0, 7), bpf.REFUSE, bpf.ACCEPT]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard, socket.socket(type=socket.SOCK_DGRAM) as sender:
        bpf.attach(heard, bpf.assemble(program))
        heard.bind(("127.0.0.1", 0))
        heard.settimeout(5)
        for datagram in (b"\x06 no", b"\x07 yes"):
            sender.sendto(datagram, heard.getsockname())

        assert b"\x07 yes" == heard.recv(100)


def test_a_program_that_can_end_nowhere_is_refused():
    """The kernel checks it."""
    with socket.socket(type=socket.SOCK_DGRAM) as opened, pytest.raises(OSError, match="Invalid argument"):
        bpf.attach(opened, bpf.assemble([(bpf.LOAD_BYTE, 0, 0, 0)]))
