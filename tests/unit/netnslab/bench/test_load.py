import ctypes

from netnslab.bench.load import _MessageHeader


def test_a_message_header_is_laid_out_as_the_kernels():
    """As struct mmsghdr on 64-bit Linux: 56 bytes of struct msghdr, the length sent, and padding."""
    assert 64 == ctypes.sizeof(_MessageHeader)
    assert (16, 24, 48, 56) == tuple(
        getattr(_MessageHeader, field).offset for field in ("vectors", "vector_count", "flags", "sent")
    )
