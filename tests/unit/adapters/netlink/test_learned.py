"""What the kernel has learned of a route: read from bytes as the kernel writes them, and from the kernel itself."""

from __future__ import annotations

import struct

from meshwatchd.adapters.netlink.learned import LearnedMtu, _learned


def _cache(expires):
    return struct.pack("=IIiIIIII", 0, 0, expires, 0, 0, 0, 0, 0)


def _metrics(mtu):
    return struct.pack("=HHI", 8, 2, mtu)


def test_an_exception_with_an_expiry_is_learned():
    """rta_expires counts ticks until the kernel forgets."""
    assert 1300 == _learned({8: _metrics(1300), 12: _cache(59_700)})


def test_a_written_mtu_is_not_learned():
    """`ip route add ... mtu 1370` has a metric and no expiry: somebody wants it so."""
    assert 0 == _learned({8: _metrics(1370), 12: _cache(0)})


def test_a_redirect_that_expires_has_no_mtu():
    """Other exceptions expire as well."""
    assert 0 == _learned({8: b"", 12: _cache(100)})
    assert 0 == _learned({})


def test_the_kernel_has_learned_nothing_of_loopback():
    """A real answer is taken apart; what cannot be asked is no error."""
    learned = LearnedMtu()
    try:
        assert 0 == learned.read("127.0.0.1")
        assert 0 == learned.read("127.0.0.2")
    finally:
        learned.close()
