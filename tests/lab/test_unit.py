"""The shipped unit, by systemd's own judgement; no daemon and no systemd has to run for that."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from tests.meta.tree import ROOT

MAX_EXPOSURE, MAX_KUBE_EXPOSURE = 2.0, 1.2
UNIT = ROOT / "systemd/meshwatchd.service"
KUBE_UNIT = ROOT / "kube/systemd/meshwatchd-kube.service"
DROP_INS = ("root", "stamp", "userspace")


def analyze(*arguments):
    """What systemd-analyze says."""
    command = ["systemd-analyze", "--no-pager", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("unit", "most"), [(UNIT, MAX_EXPOSURE), (KUBE_UNIT, MAX_KUBE_EXPOSURE)], ids=["meshwatchd", "meshwatchd-kube"]
)
def test_the_unit_is_exposed_no_more_than_it_must_be(unit, most):
    """FRR's has 9.8, systemd-networkd's 2.8."""
    said = analyze("security", "--offline=yes", unit)
    found = re.search(rf"Overall exposure level for {unit.name}: ([\d.]+)", said.stdout)

    assert found is not None, said.stderr
    assert float(found[1]) <= most, "\n".join(line for line in said.stdout.splitlines() if "✓" not in line)


@pytest.mark.parametrize("drop_in", ["", *DROP_INS])
def test_systemd_finds_nothing_wrong_with_it(tmp_path, drop_in):
    """Nor with the drop-ins for nodes that need more; commands are replaced, since none is installed here."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/usr/bin/meshwatchd", "/bin/true"))
    if drop_in:
        folder = tmp_path / f"{UNIT.name}.d"
        folder.mkdir()
        (folder / "drop-in.conf").write_text((ROOT / f"systemd/{drop_in}.conf").read_text())
    said = analyze("verify", "--man=no", "--recursive-errors=no", unit)

    assert ("", "", 0) == (said.stdout, said.stderr, said.returncode)


def test_systemd_finds_nothing_wrong_with_the_unit_for_kubernetes(tmp_path):
    """It does not require the daemon."""
    unit = tmp_path / KUBE_UNIT.name
    unit.write_text(KUBE_UNIT.read_text().replace("/usr/bin/meshwatchd-kube", "/bin/true"))
    said = analyze("verify", "--man=no", "--recursive-errors=no", unit)

    assert ("", "", 0) == (said.stdout, said.stderr, said.returncode)
    assert "Requires=" not in re.sub(r"^#.*", "", unit.read_text(), flags=re.MULTILINE)


def test_an_enabled_service_outlives_the_version_that_it_was_enabled_in(tmp_path):
    """By `make install` the unit was a link: systemctl made links to the version, and the unit was gone with that."""
    enabled = tmp_path / "etc/systemd/system/multi-user.target.wants" / UNIT.name
    for name in ("1", "2"):
        version = tmp_path / "usr/lib/meshwatchd/versions" / name
        units = version / "lib/systemd/system"
        units.mkdir(parents=True)
        (units / UNIT.name).write_bytes(UNIT.read_bytes())
        subprocess.run([ROOT / "scripts/put-unit", version, UNIT.stem, tmp_path, "/usr", "/etc"], check=True)
        subprocess.run(["systemctl", f"--root={tmp_path}", "enable", UNIT.name], check=True, capture_output=True)
        shutil.rmtree(version)

    assert f"/usr/lib/systemd/system/{UNIT.name}" == str(enabled.readlink())
    assert not (tmp_path / "etc/systemd/system" / UNIT.name).is_symlink()
    assert UNIT.read_text() == (tmp_path / "usr/lib/systemd/system" / UNIT.name).read_text()


@pytest.mark.parametrize(("tool", "name"), [("systemd-sysusers", "sysusers"), ("systemd-tmpfiles", "tmpfiles")])
def test_user_and_folder_are_made_in_a_root_of_their_own(tmp_path, tool, name):
    """By the lines that are installed; the folder is one that others have sockets in, so it is not the daemon's."""
    for file in ("passwd", "group", "shadow", "gshadow"):
        (tmp_path / "etc").mkdir(exist_ok=True)
        (tmp_path / "etc" / file).write_text("root:x:0:0::/root:/bin/sh\n" if file == "passwd" else "")
    source = {each: ROOT / f"systemd/meshwatchd.{each}" for each in ("sysusers", "tmpfiles")}
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", source["sysusers"]], check=True)
    passwd = (tmp_path / "etc/passwd").read_text()
    ((uid, gid),) = re.findall(r"^meshwatch:[^:]*:(\d+):(\d+):", passwd, re.MULTILINE)
    assert "0" != uid
    if tool == "systemd-tmpfiles":
        subprocess.run([tool, f"--root={tmp_path}", "--create", source[name]], check=True)
        made = (tmp_path / "run/wireguard").stat()
        assert (0, int(gid), 0o1775) == (made.st_uid, made.st_gid, made.st_mode & 0o7777)
