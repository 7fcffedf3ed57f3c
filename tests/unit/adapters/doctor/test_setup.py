"""The file, the keys, and what is left unwatched."""

from __future__ import annotations

import base64

from meshwatchd.adapters.doctor.setup import check_configuration, check_keys

KEY = base64.b64encode(bytes(range(32)))


def _states(checks):
    return [(check.area, check.state.value) for check in checks]


def test_a_file_that_is_right_is_ok_and_its_gaps_are_notes(tmp_path):
    """Observing without canaries is legal, and is told."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text('[daemon]\nnode = "b3"\n')
    settings, checks = check_configuration(path)

    assert "b3" == settings.daemon.node
    assert [("configuration", "ok"), ("configuration", "note"), ("configuration", "note")] == _states(checks)
    assert "mode observe" in checks[1].text
    assert "no canary is declared" in checks[2].text


def test_a_file_that_is_wrong_names_place_and_remedy(tmp_path):
    """As the daemon itself would; what else is checked goes by the defaults."""
    path = tmp_path / "meshwatchd.toml"
    path.write_text("[probe]\nprot = 1\n")
    settings, (check,) = check_configuration(path)

    assert (18618, "error") == (settings.probe.port, check.state)
    assert f"{path}: probe.prot: unknown key" == check.text
    assert "did you mean port?" == check.remedy


def test_every_key_that_is_named_is_read(tmp_path):
    """The mesh's, the one that is accepted besides, and STAMP's; a key that others can read is an error."""
    good, bad, stamp = tmp_path / "mesh.key", tmp_path / "old.key", tmp_path / "stamp.key"
    for path, mode in ((good, 0o400), (bad, 0o644), (stamp, 0o400)):
        path.write_bytes(KEY)
        path.chmod(mode)
    config = tmp_path / "meshwatchd.toml"
    config.write_text(
        f'[auth]\nkey_file = "{good}"\naccepted_key_file = "{bad}"\n'
        f'[stamp]\nlisten = 862\nmode = "authenticated"\nkey_file = "{stamp}"\nallow = ["192.0.2.1/32"]\n'
    )
    checks = list(check_keys(check_configuration(config)[0]))

    assert [("key", "ok"), ("key", "error"), ("key", "ok")] == _states(checks)
    assert f"chmod 0400 {bad}, and replace the key" == checks[1].remedy
    assert KEY.decode() not in str(checks)
