"""Seventy-five scenarios: what is injected, which tests answer for it, and what is not covered.

A scenario without a test says why; one with a test may say what of it is open. `tests/meta/test_scenarios.py` looks
every test up.
"""

from __future__ import annotations

from typing import NamedTuple


class Scenario(NamedTuple):
    """One scenario.

    Attributes:
        tests: files below tests/ with the name of the test, as "sim/test_x.py::test_y".
        open: what is not covered, or why nothing is.
    """

    number: int
    inject: str
    tests: tuple[str, ...] = ()
    open: str = ""


_FAULT = "sim/test_faults.py::test_a_fault_is_named_healed_and_gone_back_from"
_LAB_FAULT = "lab/one_mesh/test_failover.py::test_a_fault_is_named_survived_and_forgotten"
_STANDING = "unit/runtime/test_provisioning.py::"
_DAMPING = "unit/core/failover/test_damping.py::"
_POLICY_FILE = "unit/adapters/storage/test_policy_file.py::"
_SWITCHOVER = "unit/core/failover/test_switchover.py::"
_MOVES, _REST = "sim/test_moves.py::", "sim/test_restraint.py::"
_LOC, _FLAP = "sim/test_locations.py::", "sim/test_flaps.py::"
_SIZES, _LIFE = "sim/test_sizes.py::", "lab/test_daemon_lifecycle.py::"
_POLICY, _CONTROL = "unit/core/failover/test_policy.py::", "unit/adapters/control/"

SCENARIOS = (
    Scenario(1, "leader drops only new VXLAN flows", (_FAULT, _LAB_FAULT)),
    Scenario(2, "leader stops forwarding", (_FAULT, _LAB_FAULT)),
    Scenario(3, "leader power-off", (_FAULT, _LAB_FAULT)),
    Scenario(
        4, "one-way loss towards the leader", ("sim/test_faults.py::test_a_tunnel_broken_in_one_direction_is_left",)
    ),
    Scenario(
        5,
        "one-way loss from the leader",
        ("unit/core/diagnosis/test_classifier.py::test_the_direction_follows_from_what_still_arrives",),
    ),
    Scenario(
        6,
        "2 to 30 % random loss for a day",
        (
            "sim/test_detection.py::test_everyday_loss_between_the_sites_moves_nothing",
            "sim/test_detection.py::test_minutes_of_everyday_loss_condemn_nothing",
        ),
        open="minutes instead of a day; 30 % is condemned by the detector's half arm, without a margin of the standby",
    ),
    Scenario(
        7,
        "burst loss of 150 ms every 30 s",
        ("sim/test_faults.py::test_a_fault_that_was_over_before_it_was_proven_moves_nothing",),
    ),
    Scenario(
        8,
        "a quarter of the hash buckets is a black hole",
        ("sim/test_detection.py::test_a_quarter_of_the_buckets_is_found_within_a_second",),
    ),
    Scenario(
        9, "MTU black hole", (_SIZES + "test_a_black_hole_below_the_overlay_is_named_by_all_and_measured_to_the_byte",)
    ),
    Scenario(10, "MTU black hole in one direction", (_SIZES + "test_a_black_hole_in_one_direction_names_it",)),
    Scenario(11, "MTU lowered on the standby", (_SIZES + "test_a_standby_that_carries_less_is_a_warning_of_its_own",)),
    Scenario(12, "PMTU cache poisoned", ("unit/core/pmtu/test_verdict.py::test_a_poisoned_cache",)),
    Scenario(
        13,
        "latency and jitter on the leader",
        (),
        open="delay is measured and moves nothing; there is no degraded verdict",
    ),
    Scenario(
        14,
        "leader flaps at 1 Hz for 5 min",
        (_FLAP + "test_a_leader_that_flaps_each_second_moves_traffic_once",),
        open="20 s on every run; MESHWATCH_FLAP_SECONDS=300 for all of it",
    ),
    Scenario(
        15,
        "leader flaps with the period of the hold-down",
        (
            _FLAP + "test_a_flap_with_the_period_of_the_hold_down_converges",
            _DAMPING + "test_a_fault_with_the_period_of_the_hold_down_meets_a_longer_one_each_time",
        ),
    ),
    Scenario(
        16,
        "primary and standby both bad",
        (
            _REST + "test_with_primary_and_standby_broken_nothing_is_changed",
            "lab/one_mesh/test_second_faults.py::test_primary_and_standby_broken_leaves_every_route_alone",
        ),
    ),
    Scenario(
        17,
        "standby bad first, then the primary",
        (_POLICY + "test_traffic_never_goes_to_a_standby_that_is_not_known_to_be_good_now",),
    ),
    Scenario(
        18,
        "standby dies after the switch",
        (
            _MOVES + "test_a_second_fault_on_standby_leads_to_the_next_rank",
            _LOC + "test_the_primary_that_recovers_while_the_standby_dies_is_taken_at_once",
            _LOC + "test_with_both_relays_of_the_path_in_use_dead_the_leaders_bring_traffic_home",
            "lab/one_mesh/test_second_faults.py::test_second_fault_on_the_standby_link_moves_on_to_the_next_good_path",
        ),
    ),
    Scenario(19, "all peers bad at once", (_REST + "test_a_node_that_reaches_nobody_blames_itself",)),
    Scenario(
        20,
        "half of the peers bad",
        (
            _POLICY + "test_in_a_storm_only_what_avoids_the_shared_relay_is_taken_at_once",
            _LOC + "test_several_locations_at_once_are_all_gone_around",
        ),
        open="no quorum among locations: each pair decides by its own witnesses and the relays' consent",
    ),
    Scenario(
        21,
        "own stall of 1 to 10 s",
        (
            _REST + "test_a_stalled_engine_accuses_nobody",
            "lab/one_mesh/test_stall.py::test_a_daemon_that_stood_still_accuses_nobody",
        ),
    ),
    Scenario(
        22,
        "live migration",
        (_REST + "test_a_mesh_whose_engines_all_stall_moves_nothing",),
        open="as a stall; no hypervisor in the lab",
    ),
    Scenario(
        23,
        "suspend for 8 h",
        (_REST + "test_a_stalled_engine_accuses_nobody",),
        open="as a stall of seconds; the lab cannot suspend a machine",
    ),
    Scenario(
        24,
        "wall clock steps, 2036, 2038",
        (
            "unit/wire/test_ntp.py::test_known_instants_have_their_known_timestamp",
            "unit/adapters/wireguard/test_poll.py::test_a_step_of_the_wall_clock_moves_no_handshake",
        ),
    ),
    Scenario(
        25,
        "kill -9 while traffic is moved",
        (
            _LIFE + "test_a_process_killed_during_a_failover_loses_nothing",
            _MOVES + "test_a_restart_during_a_failover_touches_nothing",
        ),
    ),
    Scenario(
        26,
        "kill -9 between adding a rule and deleting one",
        ("lab/test_provision.py::test_a_second_start_changes_nothing",),
        open="no test kills between the two operations of one switch",
    ),
    Scenario(
        27,
        "stop, upgrade, reload while traffic is moved",
        (
            _LIFE + "test_restarting_every_daemon_during_a_failover_keeps_it",
            _LIFE + "test_sigterm_leaves_everything_and_sweep_leaves_nothing",
        ),
    ),
    Scenario(
        28,
        "crash loop",
        ("sim/test_orders.py::test_a_restart_does_not_shorten_the_hold_down",),
        open="no helper that reverts after N crashes: routes stay, by doctrine",
    ),
    Scenario(
        29,
        "deadlock in the probe loop",
        ("unit/runtime/test_agent_link.py::test_a_hung_agent_is_replaced_while_the_engine_probes_on",),
        open="systemd's watchdog ends the engine; the unit is not run in the lab, which has no systemd",
    ),
    Scenario(
        30,
        "netlink ENOBUFS storm",
        ("lab/test_mirror.py::test_an_overrun_ends_in_an_equal_mirror_and_our_losses_are_told",),
    ),
    Scenario(
        31,
        "errors of the kernel",
        (
            "unit/adapters/netlink/test_dumper.py::test_an_interrupted_dump_is_asked_for_again",
            _MOVES + "test_a_relay_whose_kernel_refuses_leaves_no_half_switched_mesh",
        ),
    ),
    Scenario(
        32,
        "systemd-networkd flushes foreign rules",
        (
            "lab/test_provision.py::test_removed_objects_are_told_and_put_back",
            _STANDING + "test_what_somebody_removed_is_put_back",
        ),
        open="the 100 ms are not asserted",
    ),
    Scenario(
        33,
        "Cilium moves the local rule to 100",
        (),
        open="needs a Cilium agent; our priorities are above 100 by check of the configuration",
    ),
    Scenario(
        34,
        "Kilo resyncs and re-elects during a failover",
        ("sim/test_takeover.py",),
        open="leader changes in simulation; the real Kilo agent is not in the lab",
    ),
    Scenario(
        35,
        "another tool deletes our rule five times a second",
        (
            _STANDING + "test_a_fight_is_given_up_and_taken_up_again_later",
            _SWITCHOVER + "test_an_override_that_is_removed_again_and_again_is_left_to_who_does_it",
        ),
    ),
    Scenario(
        36,
        "the user has the same priority or table",
        (
            "lab/test_daemon_refusals.py::test_beside_a_priority_or_table_of_somebody_else_a_node_only_watches",
            "lab/test_agent.py::test_a_collision_stops_every_change",
        ),
    ),
    Scenario(
        37,
        "WireGuard device made anew",
        (
            _STANDING + "test_a_device_that_vanished_is_made_again_with_its_routes",
            "lab/test_mirror.py::test_a_device_that_is_made_anew_brings_nothing_along",
        ),
    ),
    Scenario(
        38,
        "interface renamed or its address changed",
        (
            "unit/adapters/netlink/test_intake.py::test_a_renamed_device_of_ours_is_lost_under_its_old_name",
            "unit/adapters/netlink/test_mirror.py::test_after_a_removed_address_routes_are_read_again_once",
        ),
    ),
    Scenario(
        39,
        "VXLAN device with another MAC, stale FDB",
        (
            "unit/core/audit/test_overlay_entries.py::test_a_peer_that_has_another_mac_than_flannel_wrote_is_named",
            "unit/core/audit/test_repair.py::test_a_peer_with_another_mac_takes_two_rungs",
        ),
    ),
    Scenario(
        40,
        "stale neighbour",
        ("unit/core/audit/test_overlay_entries.py::test_one_entry_that_is_gone_or_wrong_is_named_alone",),
    ),
    Scenario(
        41,
        "pod route escapes into the tunnel",
        ("unit/core/audit/test_overlay_entries.py::test_a_route_of_somebody_elses_is_told_and_not_fought_over",),
    ),
    Scenario(
        42,
        "WireGuard key rotated, roamed, blocked",
        (
            "unit/core/audit/test_wireguard_changes.py::test_a_new_key_of_the_device_is_told",
            "unit/core/audit/test_wireguard_changes.py::test_a_peer_that_roams_is_told",
            _LAB_FAULT,
        ),
    ),
    Scenario(
        43,
        "AllowedIPs stolen",
        ("unit/core/audit/test_wireguard_changes.py::test_a_stolen_prefix_is_told",),
    ),
    Scenario(
        44,
        "WireGuard handshake blocked",
        ("unit/core/audit/test_wireguard_changes.py::test_a_stale_handshake_and_its_renewal_are_told_once",),
        open="told; nothing is moved ahead of the expiry",
    ),
    Scenario(
        45,
        "rp_filter on the standby's relay",
        ("lab/test_provision.py::test_a_standby_device_has_no_address_and_no_filter",),
    ),
    Scenario(46, "only one end fails over", (_REST + "test_nobody_moves_alone",)),
    Scenario(47, "both ends switch at once", (_MOVES + "test_two_agreements_at_once_end_on_one_path",)),
    Scenario(48, "loop through the standby", ("sim/test_worlds.py::test_the_properties_hold_in_a_random_world",)),
    Scenario(
        49,
        "herd of 500 nodes on one standby",
        (_LOC + "test_a_thousand_nodes_one_broken_leader",),
        open="a standby's load is not advertised; failback is spread by policy.jitter_percent",
    ),
    Scenario(
        50,
        "standby overloaded by what has moved",
        (),
        open="loss on the path in use is a fault like any other; there is no traffic that loads a link in simulation",
    ),
    Scenario(51, "spoofed answers", ("lab/one_mesh/test_flood.py::test_forgeries_of_a_peer_take_no_session_down",)),
    Scenario(
        52,
        "replayed answers",
        ("lab/one_mesh/test_forged_probes.py::test_answers_sent_a_second_time_are_counted_and_prove_nothing",),
    ),
    Scenario(
        53,
        "amplification",
        (
            "property/test_stamp.py::test_no_packet_is_answered_twice",
            "property/test_wire.py::test_no_combination_of_tlvs_makes_an_answer_longer",
        ),
    ),
    Scenario(
        54,
        "wrong, open or missing key",
        (
            "lab/one_mesh/test_forged_probes.py::test_probes_under_a_wrong_key_are_counted_and_ignored",
            "lab/test_daemon_refusals.py::test_bad_input_ends_in_one_line_and_status_2",
        ),
    ),
    Scenario(
        55,
        "key rotation",
        (
            "lab/one_mesh/test_key_rotation.py::test_a_rotation_in_three_steps_loses_nothing",
            "lab/one_mesh/test_key_rotation.py::test_a_daemon_that_missed_a_step_is_named_and_not_taken_for_dead",
        ),
    ),
    Scenario(56, "fuzzed packets", ("property/test_wire.py::test_arbitrary_bytes_never_raise",)),
    Scenario(
        57,
        "flood of the probe port",
        ("lab/one_mesh/test_flood.py::test_noise_as_fast_as_it_can_be_sent_takes_no_session_down",),
    ),
    Scenario(
        58,
        "hostile clients of the control socket",
        (
            _CONTROL + "test_server.py::test_too_many_clients_are_told_so",
            _CONTROL + "test_connection.py::test_a_client_that_never_reads_is_cut_off",
        ),
    ),
    Scenario(59, "two daemons", (_LIFE + "test_a_second_daemon_on_a_node_ends_at_once_and_names_the_first",)),
    Scenario(
        60,
        "disk full",
        (
            "unit/adapters/storage/test_event_store.py::test_a_full_disk_costs_only_the_file",
            _POLICY_FILE + "test_a_disk_that_takes_nothing_is_named_and_leaves_the_old_file",
        ),
    ),
    Scenario(61, "stale gauges of a dead daemon", (), open="see the metrics' own tests"),
    Scenario(
        62,
        "corrupt state file",
        ("unit/adapters/storage/test_policy_file.py::test_what_makes_no_sense_is_moved_aside_and_named",),
    ),
    Scenario(
        63,
        "invalid reload",
        (
            "unit/config/test_load.py::test_an_unknown_key_gets_a_hint",
            "lab/one_mesh/test_key_rotation.py::test_a_file_that_cannot_be_used_leaves_everything_as_it_is",
        ),
    ),
    Scenario(
        64,
        "a thousand peers",
        (_LOC + "test_a_thousand_nodes_one_broken_leader",),
        open="CPU and memory are figures of the benchmarks",
    ),
    Scenario(65, "peers come and go", ("sim/test_takeover.py",), open="leaks over an hour are not looked for"),
    Scenario(66, "no API server, no DNS", (_LAB_FAULT,), open="the lab has neither"),
    Scenario(67, "conntrack table full", (), open="no counter of the kernel's conntrack is read"),
    Scenario(
        68,
        "firewall blocks the probe port alone",
        (),
        open="known to the classifier as probes treated apart; no traffic counter beside a lab run",
    ),
    Scenario(
        69,
        "middlebox forwards probes alone",
        ("sim/test_layers.py::test_a_silent_canary_is_a_warning_at_those_who_ask_it",),
    ),
    Scenario(
        70,
        "probes in a better queue than data",
        (),
        open="probes carry no DSCP of their own; queues by DSCP are not in the lab",
    ),
    Scenario(
        71,
        "leader restarts within the detection time",
        ("unit/wire/test_replay.py::test_a_restarted_peer_is_believed_once_it_proved_itself",),
    ),
    Scenario(72, "two leaders in one location", ("sim/test_takeover.py",)),
    Scenario(73, "standby dies between check and switch", ("unit/core/failover/test_switchover.py",)),
    Scenario(
        74,
        "no shell, read-only file system, restart while moved",
        (
            _POLICY_FILE + "test_a_disk_that_takes_nothing_is_named_and_leaves_the_old_file",
            _LIFE + "test_restarting_every_daemon_during_a_failover_keeps_it",
        ),
        open="the system itself is not in the lab",
    ),
    Scenario(
        75,
        "IPv6 alone, or only IPv6 broken",
        ("sim/test_layers.py::test_a_node_that_loses_ip6_is_named_and_nothing_moves",),
        open="standby routes are IPv4: a mesh without it is refused",
    ),
)
