"""Tunnels are found by their keys alone."""

from netnslab.live_state import Tunnel, match_tunnels

A1 = "kilo0\tPRIVATE\tKA\t51820\toff\nkilo0\tKB\t(none)\t198.51.100.21:51820\t10.244.4.0/24\t1000\t300\t200\toff\n"
B1 = "kilo0\tPRIVATE\tKB\t51820\toff\nkilo0\tKA\t(none)\t203.0.113.11:51820\t10.244.1.0/24\t990\t150\t300\t20\n"
FORMER = "kilo0\tPRIVATE\tKC\t51820\toff\nkilo0\tKA\t(none)\t203.0.113.11:51820\t10.244.1.0/24\t0\t0\t148\t20\n"


def test_two_devices_that_know_each_other_are_one_tunnel():
    """Named once, in the order of the nodes; the later handshake counts."""
    expected = Tunnel(device="kilo0", ends=("a1", "b1"), handshake_age_s=5, transferred_bytes=450)

    assert (expected,) == match_tunnels({"a1": A1, "b1": B1}, now_s=1005)


def test_leftovers_of_a_former_leader_are_no_tunnel():
    """b3 knows a1's key, a1 does not know b3's."""
    assert () == match_tunnels({"a1": A1, "b3": FORMER}, now_s=1005)


def test_tunnel_without_handshake_says_so():
    """Zero is not the epoch but never."""
    (tunnel,) = match_tunnels({"a1": A1.replace("1000", "0"), "b1": B1.replace("990", "0")}, now_s=1005)

    assert tunnel.handshake_age_s is None


def test_links_that_share_a_key_are_told_apart_by_their_device():
    """All standby links of a relay have its one standby key: a2 has two links, to b1 and to b2."""
    link = "{device}\tPRIVATE\t{own}\t51831\toff\n{device}\t{far}\t(none)\t(none)\t10.0.0.0/8\t1000\t1\t2\t10\n"
    dumps = {
        "a2": link.format(device="mw1", own="SA2", far="SB1") + link.format(device="mw2", own="SA2", far="SB2"),
        "b1": link.format(device="mw1", own="SB1", far="SA2"),
        "b2": link.format(device="mw2", own="SB2", far="SA2"),
    }

    found = [(tunnel.device, tunnel.ends) for tunnel in match_tunnels(dumps, now_s=1005)]
    assert [("mw1", ("a2", "b1")), ("mw2", ("a2", "b2"))] == found
