from netnslab.bench.usage import Usage, cpu_ns, rss_kib, total_percent

STAT = "4711 (a (odd) name) S 1 4711 4711 0 -1 4194304 100 0 0 0 150 50 0 0 20 0 1 0 1000 0 0"
STATUS = "Name:\tbird\nVmHWM:\t    6000 kB\nVmRSS:\t    5316 kB\nThreads:\t2\n"


def test_processor_time_is_user_and_system_time():
    """Two hundred ticks, of a process whose name has parentheses and spaces."""
    assert 2_000_000_000 == cpu_ns(STAT)


def test_memory_is_what_is_resident_at_the_moment():
    """Not the peak; a kernel thread or a zombie has none."""
    assert 5_316 == rss_kib(STATUS)
    assert 0 == rss_kib("Name:\tkthreadd\n")


def test_both_ends_add_up():
    """In per cent of one core."""
    assert 14.62 == total_percent([Usage(cpu_percent=7.37, rss_kib=1), Usage(cpu_percent=7.25, rss_kib=2)])
