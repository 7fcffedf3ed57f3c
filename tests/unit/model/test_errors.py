"""Errors name a place and a remedy in one line."""

from __future__ import annotations

from meshwatchd.model.errors import ConfigError, ControlError, DecodeError, KernelError, MeshwatchError, ProfileError


def test_a_config_error_names_file_key_problem_and_remedy():
    """One line that an operator can act on."""
    error = ConfigError("/etc/m.toml", "probe.port", "70000 is no port", "write 1 to 65535")

    assert "/etc/m.toml: probe.port: 70000 is no port; write 1 to 65535" == str(error)
    assert ("/etc/m.toml", "probe.port") == (error.path, error.key)


def test_a_config_error_about_the_whole_file_names_no_key():
    """There is no key to name in a file that is no TOML."""
    assert "m.toml: is empty; copy the sample" == str(ConfigError("m.toml", "", "is empty", "copy the sample"))


def test_a_kernel_error_keeps_its_number():
    """The text is the kernel's own, the number is for the code that tolerates it."""
    error = KernelError("add rule 5460", 17, "File exists")

    assert (17, "add rule 5460: File exists (errno 17)") == (error.errno, str(error))


def test_a_decode_error_says_whose_bytes_were_wrong():
    """Bad bytes of a peer and of the agent have different remedies."""
    assert "link: truncated" == str(DecodeError("link", "truncated"))


def test_a_control_error_carries_the_exit_status():
    """What meshwatchctl exits with."""
    assert (3, "daemon unreachable") == (
        ControlError(3, "daemon unreachable").code,
        str(ControlError(3, "daemon unreachable")),
    )


def test_every_error_is_ours():
    """One except clause tells our errors from accidents."""
    kinds = (ConfigError, ControlError, DecodeError, KernelError, ProfileError)

    assert all(issubclass(kind, MeshwatchError) for kind in kinds)
