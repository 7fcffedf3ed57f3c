"""Provisioning, watching and sweeping on the real kernel, in namespaces of their own."""

import asyncio
import time
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from meshwatchd.adapters.netlink.dumper import Dumper
from meshwatchd.adapters.netlink.kernel import Kernel
from meshwatchd.adapters.netlink.mirror import Mirror
from meshwatchd.adapters.netlink.sweep import sweep
from meshwatchd.adapters.wireguard.device import Devices
from meshwatchd.adapters.wireguard.identity import load_private_key, public_key
from meshwatchd.model.plan import Provision, Route, Rule, StandbyLink
from meshwatchd.model.settings import KernelSettings, MeshSettings, StandbySettings
from meshwatchd.runtime.logging import make_log
from meshwatchd.runtime.provisioning import Standing
from tests.support.throwaway import nodes

pytestmark = pytest.mark.lab

DEADLINE_S = 20
"""The emulated guest is twenty times slower than the host."""

KEY = "L6Yk4ScDtGWXVvhNWZJBnDDf/tkZbWWcJmQkbQV1qzQ="
LINK = StandbyLink(
    device="mw0",
    peer="a1",
    listen_port=51830,
    mtu_bytes=1400,
    peer_public_key=KEY,
    endpoint="10.9.0.2:51830",
    allowed_ips=("10.244.1.0/24", "192.168.100.11/32"),
    keepalive_s=1,
)
PORTS = (10000, 29999)
LANDING = Rule(priority=5480, table=7798)
DELIVERY = Rule(priority=5400, table=7799, iif="mw0")
OUT = Route(dst="10.244.1.0/24", table=7701, dev="mw0", src="10.9.0.1")
IN = Route(dst="10.2.0.13/32", table=7799, dev="eth0", via="10.244.6.0")
WANTED = Provision(
    links=(LINK,),
    routes=(OUT, IN),
    rules=(
        DELIVERY,
        LANDING,
        Rule(priority=5410, goto=5480, sport=PORTS, dport=(18620, 18620)),
        Rule(priority=5411, table=7741, sport=PORTS, dport=(18621, 18621)),
        Rule(priority=5411, table=7741, sport=(18621, 18621), dport=PORTS),
    ),
)
FOREIGN_RULES = ("pref 100 lookup 7701 protocol 117", "pref 5495 lookup 7701 protocol 99")


@pytest.fixture
def node(tmp_path):
    """One node."""
    with nodes(tmp_path, "b2") as (only,):
        yield only


@pytest.fixture
def pair(tmp_path):
    """Two nodes on one cable."""
    with nodes(tmp_path, "b2", "a1") as both:
        yield both


def standby(state_dir, **changes):
    """Settings with the key in a node's own directory."""
    return StandbySettings(private_key_file=str(state_dir / "standby.key"), **changes)


async def with_standing(node, work):
    """Run `work(standing, devices, kernel)` as a freshly started daemon would."""
    with closing(Kernel(117)) as kernel:
        devices = Devices(kernel, standby(node.state_dir), node.state_dir)
        return await work(
            Standing(kernel, devices, KernelSettings(), time.monotonic_ns, log=make_log("json", level="error")),
            devices,
            kernel,
        )


def provision(node, wanted=WANTED):
    """Ask for a Provision as a freshly started daemon would."""
    return node.do(lambda: with_standing(node, lambda standing, devices, kernel: standing.ensure(wanted)))


async def until(condition):
    """Wait until an asynchronous condition gives something."""
    async with asyncio.timeout(DEADLINE_S):
        while not (result := await condition()):  # noqa: ASYNC110  # nothing announces it
            await asyncio.sleep(0.02)
    return result


def objects(node):
    """Our rules and routes as `ip` shows them, protocols as numbers: a minimal system has no /etc/protocols.

    iproute2 writes the number of a protocol without a name as `ipproto-17`.
    """
    rules = [line.replace("ipproto-17", "17") for line in node.ip("-N rule").splitlines() if "117" in line.split()]
    return rules + node.ip("route show table all proto 117").splitlines()


def test_a_provision_is_in_place_as_ip_shows_it(node):
    """Seen by somebody else's eyes."""
    outcome = provision(node)

    assert () == outcome.errors
    assert [
        "5400:\tfrom all iif mw0 lookup 7799 proto 117",
        "5410:\tfrom all ipproto 17 sport 10000-29999 dport 18620 goto 5480 proto 117",
        "5411:\tfrom all ipproto 17 sport 10000-29999 dport 18621 lookup 7741 proto 117",
        "5411:\tfrom all ipproto 17 sport 18621 dport 10000-29999 lookup 7741 proto 117",
        "5480:\tfrom all lookup 7798 proto 117",
    ] == objects(node)[:5]
    assert {
        "10.244.1.0/24 dev mw0 table 7701 scope link src 10.9.0.1",
        "10.2.0.13 via 10.244.6.0 dev eth0 table 7799 onlink",
    } == {line.strip() for line in objects(node)[5:]}


def test_a_standby_device_has_no_address_and_no_filter(node):
    """With an address Cilium would attach to it; with a strict filter it would drop what failover brings."""
    provision(node)

    link = node.ip("-d link show mw0")
    assert "mtu 1400" in link
    assert "addrgenmode none" in link
    assert "inet" not in node.ip("addr show mw0")
    assert "0" == node.run("cat", "/proc/sys/net/ipv4/conf/mw0/rp_filter").strip()
    assert "51830" == node.run("wg", "show", "mw0", "listen-port").strip()
    assert f"{KEY}\t10.244.1.0/24 192.168.100.11/32" == node.run("wg", "show", "mw0", "allowed-ips").strip()


def test_wg_quick_makes_the_very_link_of_its_file(node, tmp_path):
    """An operator may load it by hand: same keys, peer and MTU, no address, and no route that would attract traffic."""
    provision(node)
    file = tmp_path / "mw0.conf"
    file.write_text((node.state_dir / "links" / "mw0.conf").read_text())
    file.chmod(0o600)
    before, routes = node.run("wg", "showconf", "mw0"), node.ip("route show table main")
    node.do(lambda: with_standing(node, lambda _standing, devices, _kernel: devices.remove("mw0")))
    assert "mw0" not in node.ip("-br link")

    node.run("wg-quick", "up", str(file))

    assert before == node.run("wg", "showconf", "mw0")
    assert routes == node.ip("route show table main")
    assert "mtu 1400" in node.ip("link show mw0")
    assert "" == node.ip("-br -4 address show mw0").partition("UNKNOWN")[2].strip()
    node.run("wg-quick", "down", str(file))


def test_a_second_start_changes_nothing(node):
    """Not an object, not the device, not the process behind it."""
    provision(node)
    before = objects(node), node.ip("-o link show mw0"), (node.state_dir / "links.json").read_text()

    assert provision(node).is_complete
    assert before == (objects(node), node.ip("-o link show mw0"), (node.state_dir / "links.json").read_text())


def test_a_device_is_adopted_by_its_key_when_the_record_is_lost(node):
    """The state directory was cleaned while the device carries traffic."""
    provision(node)
    before = node.ip("-o link show mw0")
    (node.state_dir / "links.json").unlink()

    assert provision(node).is_complete
    assert before == node.ip("-o link show mw0")


def test_an_override_survives_provisioning(node):
    """A restart during a failover must not end it."""
    node.ip("rule add pref 5460 lookup 7701 protocol 117")

    provision(node)

    assert "5460:\tfrom all lookup 7701 proto 117" in objects(node)


def test_a_session_survives_a_restart_and_a_change_of_prefixes(pair):
    """Both ends are real; the time of the last handshake tells whether the session was reset."""
    keys = [public_key(load_private_key(Path(standby(each.state_dir).private_key_file))) for each in pair]
    links = [
        msgspec.structs.replace(LINK, peer_public_key=keys[1], endpoint="10.9.0.2:51830"),
        msgspec.structs.replace(LINK, peer_public_key=keys[0], endpoint="10.9.0.1:51830"),
    ]

    async def handshake(node):
        async def read(standing, devices, kernel):
            link = await kernel.find_link("mw0")
            return (await devices.read(link)).peers[0].last_handshake_ns

        return await with_standing(node, read)

    for each, link in zip(pair, links, strict=True):
        assert () == provision(each, Provision(links=(link,))).errors
    first = pair[0].do(lambda: until(partial(handshake, pair[0])))

    provision(pair[0], Provision(links=(links[0],)))
    more = msgspec.structs.replace(links[0], allowed_ips=("10.244.2.0/24",), keepalive_s=2)
    provision(pair[0], Provision(links=(more,)))

    assert first == pair[0].do(lambda: handshake(pair[0]))
    assert "10.244.2.0/24" in pair[0].run("wg", "show", "mw0", "allowed-ips")


@contextmanager
def mirror_of(devices):
    """A mirror with a socket for its dumps."""
    dumper = Dumper()
    try:
        yield Mirror(dumper, KernelSettings(), MeshSettings(), devices.is_ours)
    finally:
        dumper.close()


@contextmanager
def subscribed(mirror):
    """Take in notifications."""
    mirror.open()
    try:
        yield
    finally:
        mirror.close()


def test_removed_objects_are_told_and_put_back(node):
    """Whoever flushes our rule or takes the device down hears of it, and it is back."""

    async def scenario(standing, devices, kernel):
        with mirror_of(devices) as mirror, subscribed(mirror):
            await mirror.snapshot()
            await standing.ensure(WANTED)
            await mirror.snapshot()
            assert mirror.losses.empty()
            started = time.monotonic()
            node.from_within("ip", "rule", "del", "pref", "5400")
            lost = await asyncio.wait_for(mirror.losses.get(), DEADLINE_S)
            told_s = time.monotonic() - started
            assert standing.concerns(lost)
            restored = [await standing.restore()]
            node.from_within("ip", "link", "set", "mw0", "down")
            restored.append(await standing.restore())
            return lost.text, told_s, restored

    text, told_s, restored = node.do(lambda: with_standing(node, scenario))

    assert f"rule {DELIVERY.render()}" == text
    assert told_s < DEADLINE_S
    assert ([f"rule {DELIVERY.render()}"], None) == restored[0]
    assert (["device mw0", f"route {OUT.render()}"], None) == restored[1]


def test_strangers_in_our_place_are_collisions(node):
    """Found in the first dump, before anything is changed."""
    node.ip("rule add pref 5410 lookup 100")
    node.ip("route add 9.0.0.0/8 dev lo table 7703 proto static")
    node.ip("link add mw7 type bridge")

    async def look(standing, devices, kernel):
        with mirror_of(devices) as mirror:
            return await mirror.snapshot()

    seen = node.do(lambda: with_standing(node, look))

    named = " ".join(each.what for each in seen.collisions)
    assert 3 == len(seen.collisions)
    assert "pref 5410" in named
    assert "9.0.0.0/8" in named
    assert "device mw7" in named
    assert ["mw7"] == [link.name for link in seen.links if link.kind == "bridge"]


def test_a_device_of_somebody_else_keeps_its_name(node):
    """The rest of the provision is reported as missing, the stranger is as it was."""
    node.ip("link add mw0 type bridge")

    outcome = provision(node)

    assert not outcome.is_complete
    assert "was not made by meshwatchd" in outcome.errors[0]
    assert "bridge" in node.ip("-d link show mw0")


def test_an_overrun_ends_in_a_complete_picture(node):
    """A burst that the monitor could not take in: the next snapshot is a whole dump."""

    async def scenario(standing, devices, kernel):
        with mirror_of(devices) as mirror, subscribed(mirror):
            await mirror.snapshot()
            # Nobody reads meanwhile: more notifications than 8 MiB of buffer hold.
            lines = "".join(f"route replace 9.{i}.{j}.0/24 dev lo\n" for i in range(96) for j in range(256))
            batch = node.state_dir / "batch"
            batch.write_text(lines)
            node.from_within("ip", "-batch", str(batch))
            node.from_within("ip", "link", "add", "late", "type", "bridge")
            async with asyncio.timeout(DEADLINE_S):
                while mirror.is_in_sync:
                    await mirror.is_dirty.wait()
                    await asyncio.sleep(0.01)
            return await until(partial(_with_link, mirror, "late"))

    async def _with_link(mirror, name):
        return (await mirror.snapshot()).link(name)

    assert "bridge" == node.do(lambda: with_standing(node, scenario)).kind


def test_sweeping_removes_what_is_ours_and_spares_the_rest(node):
    """Twice, and dry before: every object is named; strangers with half of our marks stay."""
    provision(node)
    node.ip("rule add pref 5460 lookup 7701 protocol 117")
    node.ip("route add unreachable 9.9.9.9/32 table 7702 proto 117")
    node.ip("route add 9.9.9.9/32 dev lo table 7600 proto 117")
    for rule in FOREIGN_RULES:
        node.ip(f"rule add {rule}")
    run = partial(sweep, KernelSettings(), state_dir=node.state_dir)

    announced = node.space.call(partial(run, dry_run=True))
    removed = node.space.call(partial(run, dry_run=False))

    assert announced == removed
    assert "rule pref 5460 from all lookup 7701" == removed[0]
    assert "device mw0" == removed[-1]
    assert 6 + 3 + 1 == len(removed)
    assert [] == node.space.call(partial(run, dry_run=False))
    assert ["100:\tfrom all lookup 7701 proto 117", "9.9.9.9 dev lo table 7600 scope link"] == [
        line.strip() for line in objects(node)
    ]
    assert "5495:" in node.ip("rule")
    assert "mw0" not in node.ip("link")


def test_sweeping_finds_a_device_whose_record_is_lost(node):
    """By the private key beside it; the process behind it ends with the device."""
    provision(node)
    (node.state_dir / "links.json").unlink()

    removed = node.space.call(partial(sweep, KernelSettings(), dry_run=False, state_dir=node.state_dir))

    assert "device mw0" == removed[-1]
    assert "mw0" not in node.ip("link")
    assert not list(Path("/run/wireguard").glob("mw0.sock"))
