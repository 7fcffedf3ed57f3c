import os

from meshwatchd.runtime.agent_process import EXIT_FAILURE, main


def test_what_it_cannot_run_on_is_named(capsys):
    """The engine was writing at that moment: the agent says so and is started again."""
    reader, writer = os.pipe()
    boot = os.memfd_create("boot")
    os.write(boot, b"half a b")

    status = main(["--link-fd", str(reader), "--boot-fd", str(boot)])

    os.close(reader)
    os.close(writer)
    assert EXIT_FAILURE == status
    assert "ended early" in capsys.readouterr().err
