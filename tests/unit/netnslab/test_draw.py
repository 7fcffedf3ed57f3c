"""The picture shows who leads, what is diverted and what is broken."""

from netnslab.draw import draw
from netnslab.live_state import LiveState, NodeState, Tunnel
from netnslab.ownership import FaultRecord
from netnslab.topology_file import load

TOPOLOGY = load("kilo-flannel")


def picture():
    """b1 is dead, b3 is diverted, a fault waits at a1."""
    nodes = {name: NodeState(name=name, is_tunnel_up=TOPOLOGY.is_leader(name)) for name in TOPOLOGY.nodes}
    nodes["b3"] = NodeState(name="b3", is_tunnel_up=False, diverted_to=("7701",))
    state = LiveState(
        lab_id="kilo-flannel-0000",
        wireguard="userspace",
        nodes=nodes,
        tunnels=(Tunnel(device="kilo0", ends=("a1", "b1"), handshake_age_s=3, transferred_bytes=1500),),
        faults=(
            FaultRecord(kind="leader-dead", node="b1", is_injected=True),
            FaultRecord(kind="overlay-new-flows", node="a1", is_injected=False),
        ),
    )
    return draw(TOPOLOGY, state)


def test_locations_stand_side_by_side():
    """Leaders in one row, no line wider than a terminal of 100 columns."""
    lines = picture().splitlines()

    assert any("a1" in line and "b1" in line and 2 == line.count("leader") for line in lines)
    assert max(map(len, lines)) <= 100


def test_faults_diversions_and_tunnels_are_shown():
    """Injected faults at their node, armed ones below."""
    text = picture()

    assert "FAULT leader-dead" in text
    assert "FAULT overlay-new-flows" not in text
    assert "overlay-new-flows at a1: armed" in text
    assert "DIVERTED to table 7701" in text
    assert "a1 ==== kilo0 ==== b1   handshake 3 s ago, 1.5 kB" in text
