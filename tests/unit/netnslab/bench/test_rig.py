from netnslab.bench.rig import MEMBERS, legs


def test_four_sessions_share_a_leg():
    """Ten pairs of addresses make two full legs and half a third."""
    sessions = legs([f"10.0.1.{n}" for n in range(10)], [f"10.0.2.{n}" for n in range(10)], is_pinned=True)

    assert [0] * MEMBERS + [1] * MEMBERS + [2] * 2 == [session.group for session in sessions]
    assert all(session.is_pinned for session in sessions)
    assert ("10.0.1.3", "10.0.2.3") == (sessions[3].source, sessions[3].destination)
