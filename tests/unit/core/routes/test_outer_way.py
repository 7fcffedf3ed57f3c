"""One node of another cluster, round by round; the world around it is in tests/sim/test_outer_reroute.py."""

from __future__ import annotations

import pytest

from meshwatchd.core.routes.outer_way import (
    ANSWERED_ROUNDS,
    BUSY_ROUNDS,
    MOST_ASKED,
    OTHER_TRIAL_ROUNDS,
    PROOF_ROUNDS,
    REFUSED_NS,
    ROUND_NS,
    SILENT_ROUNDS,
    SLOW_ROUNDS,
    TRANSITIONS,
    TRIAL_ROUNDS,
    VERIFY_ROUNDS,
    OuterWay,
    WayInput,
    WayState,
)
from meshwatchd.model.outer_reroute import FarNode, Relay, Way, WayAnswer, WayQuestion
from meshwatchd.model.settings import SECOND, PolicySettings

FAR = FarNode(name="w1", address="10.82.0.11", overlay="10.11.1.71")
OWN = "10.81.0.11"
RELAYS = tuple(
    Relay(name=f"e{number}", address=f"10.81.0.1{number}", device="eth0", source=OWN) for number in range(2, 9)
)
HERE = WayAnswer(seen=OWN)


class Stage:
    """A way, and who answers at present."""

    def __init__(self, *, hold_down: int = 30 * SECOND, wait_to_restore: int = 10 * SECOND) -> None:
        policy = PolicySettings(hold_down=hold_down, wait_to_restore=wait_to_restore)
        self.way, self.now = OuterWay(FAR, policy), 0
        self.may_move = self.is_missed = True
        self.answers = {Way.DIRECT: None, Way.OVERLAY: None, Way.RELAYED: HERE}
        self.vouchers = {"e2": WayAnswer()}
        self.asked: list[WayQuestion] = []

    def round(self, count: int = 1) -> WayState:
        """So many rounds."""
        for _ in range(count):
            self.asked = list(self.way.questions(RELAYS))
            self.now += ROUND_NS
            answers = {
                each: self.vouchers.get(each.relay) if each.way is Way.VOUCHED else self.answers[each.way]
                for each in self.asked
            }
            if answers:
                self.way.observe(answers, RELAYS, self.now, may_move=self.may_move, is_missed=self.is_missed)
        return self.way.state

    def until(self, state: WayState, limit: int = 400) -> int:
        """Rounds until a state is reached."""
        for count in range(1, limit):
            if self.round() is state:
                return count
        raise AssertionError(f"{self.way.state} and not {state}")


def _rerouted(**policy: int) -> Stage:
    stage = Stage(**policy)
    stage.until(WayState.REROUTED)
    stage.answers[Way.OVERLAY] = HERE
    stage.round(ANSWERED_ROUNDS)
    assert stage.way.is_verified
    return stage


def test_every_input_of_the_table_leads_to_a_state():
    """And what is clear stays so."""
    assert set(TRANSITIONS) == set(WayState)
    assert {} == TRANSITIONS[WayState.CLEAR]
    assert all(set(each) <= set(WayInput) for each in TRANSITIONS.values())


def test_a_doubt_that_is_answered_ends():
    """Some rounds in a row; one in between begins anew."""
    stage = Stage()
    stage.answers[Way.OVERLAY] = HERE
    assert ANSWERED_ROUNDS == stage.until(WayState.CLEAR)


def test_a_neighbour_is_taken_after_proof_and_not_before():
    """Silence, a neighbour that vouches, so many packets through it in a row."""
    stage = Stage()
    assert SILENT_ROUNDS == stage.until(WayState.BROKEN)
    assert not stage.way.is_tried
    assert 1 == stage.until(WayState.TRIED)
    assert (True, False) == (stage.way.is_tried, stage.way.is_rerouted)
    assert PROOF_ROUNDS == stage.until(WayState.REROUTED)
    assert stage.way.relay == RELAYS[0]


def test_the_proof_has_packets_of_full_size():
    """Outer packets are that large, and a relay that loses those is none."""
    stage = Stage()
    stage.until(WayState.TRIED)
    sizes = set()
    for _ in range(PROOF_ROUNDS):
        stage.round()
        sizes |= {each.is_full for each in stage.asked if each.way is Way.RELAYED}
    assert {False, True} == sizes


@pytest.mark.parametrize(
    "voucher", [None, WayAnswer(is_reached=False), WayAnswer(is_willing=False)], ids=["silent", "lost", "unwilling"]
)
def test_a_neighbour_that_does_not_vouch_is_not_tried(voucher):
    """It does not answer, does not reach the node itself, or does not forward."""
    stage = Stage()
    stage.vouchers = {} if voucher is None else {"e2": voucher}
    stage.round(BUSY_ROUNDS)
    assert stage.way.state is WayState.BROKEN
    assert () == stage.way.vouchers


def test_all_neighbours_are_asked_in_turn_and_then_seldom():
    """A few in a round; who has found nobody for half a minute waits for people."""
    stage = Stage()
    stage.vouchers = {}
    stage.until(WayState.BROKEN)
    asked = set()
    for _ in range(4):
        stage.round()
        vouched = [each.relay for each in stage.asked if each.way is Way.VOUCHED]
        assert len(vouched) == MOST_ASKED
        asked |= set(vouched)
    assert {each.name for each in RELAYS} == asked
    stage.round(BUSY_ROUNDS)
    rounds = []
    for _ in range(4 * SLOW_ROUNDS):
        stage.round()
        rounds.append(bool(stage.asked))
    assert 4 == rounds.count(True)


def test_what_is_not_proven_in_time_makes_room_for_another_neighbour_and_is_tried_again():
    """Each round of neighbours takes longer: the other end may begin whenever somebody allows it."""
    stage = Stage()
    stage.answers[Way.RELAYED] = None
    stage.until(WayState.TRIED)
    assert TRIAL_ROUNDS == stage.until(WayState.BROKEN)
    assert not stage.way.is_tried
    assert "packets through e2 are not answered" == stage.way.reason
    stage.vouchers["e3"] = WayAnswer()
    tried = []
    for rounds in (1, 2, 2, 4, 4, 8, 8, 8):
        assert stage.until(WayState.TRIED) <= 3
        tried.append(stage.way.relay)
        assert rounds * TRIAL_ROUNDS == stage.until(WayState.BROKEN)
    assert [RELAYS[1], *[RELAYS[0], RELAYS[1]] * 3, RELAYS[0]] == tried


def test_one_over_which_the_overlay_was_silent_waits_each_time_twice_as_long():
    """Every packet of the overlay was led through it in vain."""
    stage = Stage()
    stage.until(WayState.REROUTED)
    stage.until(WayState.BROKEN)
    for wait_ns in (REFUSED_NS, 2 * REFUSED_NS):
        refused_at = stage.now
        stage.until(WayState.TRIED)
        assert wait_ns <= stage.now - refused_at <= wait_ns + (SLOW_ROUNDS + 1) * ROUND_NS
        stage.until(WayState.BROKEN)


def test_the_two_ends_change_neighbours_at_another_pace():
    """Or both could be at the one that forwards in turns for ever."""
    far = FarNode(name="e1", address="10.80.0.11", overlay="10.10.1.71")
    way, rounds = OuterWay(far, PolicySettings()), 0
    for now in range(60):
        way.observe(
            {each: WayAnswer() if each.way is Way.VOUCHED else None for each in way.questions(RELAYS)},
            RELAYS,
            now,
            may_move=True,
        )
        rounds += way.relay == RELAYS[0]
    assert OTHER_TRIAL_ROUNDS == rounds


def test_who_hides_the_source_is_refused_with_the_reason():
    """The address that the node saw is not this one's."""
    stage = Stage()
    stage.answers[Way.RELAYED] = WayAnswer(seen="10.81.0.12")
    stage.until(WayState.TRIED)
    assert TRIAL_ROUNDS == stage.until(WayState.BROKEN)
    assert "e2 puts 10.81.0.12 in the place of this node's address" == stage.way.reason


def test_a_neighbour_over_which_the_overlay_stays_silent_is_left():
    """The port of outer packets may be what is lost, or the fault is elsewhere."""
    stage = Stage()
    stage.until(WayState.REROUTED)
    assert VERIFY_ROUNDS == stage.until(WayState.BROKEN)
    assert "packets of the overlay through e2 are not answered" == stage.way.reason


def test_once_the_overlay_was_answered_its_silence_is_noticed_sooner():
    """As soon as on the way of its own."""
    stage = _rerouted()
    stage.answers[Way.OVERLAY] = None
    assert SILENT_ROUNDS == stage.until(WayState.BROKEN)


def test_the_way_home_takes_hold_down_and_answers_in_a_row():
    """Both; and is over when the overlay is answered."""
    stage = _rerouted(hold_down=20 * SECOND, wait_to_restore=5 * SECOND)
    began = stage.now
    stage.answers[Way.DIRECT] = HERE
    stage.until(WayState.RETURNING)
    assert 16 * SECOND <= stage.now - began <= 20 * SECOND
    assert (True, False) == (stage.way.is_tried, stage.way.is_rerouted)
    assert ANSWERED_ROUNDS == stage.until(WayState.CLEAR)

    stage = _rerouted(hold_down=0, wait_to_restore=5 * SECOND)
    began = stage.now
    for _ in range(20):
        stage.answers[Way.DIRECT] = HERE
        stage.round(8)
        stage.answers[Way.DIRECT] = None
        assert stage.round() is WayState.REROUTED


def test_a_way_home_in_vain_is_taken_back_and_the_next_comes_later():
    """The neighbour answers still, so it is taken at once."""
    stage = _rerouted(hold_down=2 * SECOND, wait_to_restore=SECOND)
    stage.answers[Way.DIRECT] = HERE
    stage.until(WayState.RETURNING)
    stage.answers[Way.OVERLAY] = None
    assert 3 == stage.until(WayState.REROUTED)
    assert 4 * SECOND == stage.way.hold_ns


def test_without_any_hold_down_the_way_home_takes_answers_and_holds_after_an_attempt_in_vain():
    """Nobody who answers nothing is come home to."""
    stage = _rerouted(hold_down=0, wait_to_restore=0)
    assert stage.round(100) is WayState.REROUTED
    stage.answers[Way.DIRECT] = HERE
    assert ANSWERED_ROUNDS == stage.until(WayState.RETURNING)
    stage.answers[Way.OVERLAY] = None
    stage.until(WayState.REROUTED)
    assert SECOND == stage.way.hold_ns


def test_a_dead_relay_is_left_at_once_where_the_own_way_is_well():
    """No hold-down keeps it, nor an operator's pause."""
    stage = _rerouted()
    stage.answers[Way.DIRECT] = HERE
    stage.round(3)
    stage.may_move = False
    stage.answers |= {Way.RELAYED: None, Way.OVERLAY: None}
    assert 2 == stage.until(WayState.RETURNING)


def test_a_neighbour_that_loses_some_questions_is_none_that_has_died():
    """Packets of the overlay arrive; it is not left past the hold-down, and taken back after a way home in vain."""
    stage = _rerouted(hold_down=3600 * SECOND)
    stage.answers |= {Way.DIRECT: HERE, Way.RELAYED: None}
    assert stage.round(20) is WayState.REROUTED

    stage = _rerouted(hold_down=0, wait_to_restore=0)
    stage.answers[Way.DIRECT] = HERE
    stage.until(WayState.RETURNING)
    stage.answers[Way.OVERLAY] = None
    stage.round(2)
    stage.answers[Way.RELAYED] = None
    assert stage.round() is WayState.REROUTED


def test_paused_nothing_is_begun_and_what_is_in_use_stays_while_it_works():
    """Neither a trial nor a way home."""
    stage = Stage()
    stage.may_move = False
    stage.round(40)
    assert stage.way.state is WayState.BROKEN
    assert ["e2"] == [each.name for each in stage.way.vouchers]
    stage = _rerouted(hold_down=0, wait_to_restore=0)
    stage.may_move = False
    stage.answers[Way.DIRECT] = HERE
    assert stage.round(100) is WayState.REROUTED
    stage.answers |= {Way.DIRECT: None, Way.OVERLAY: None}
    assert SILENT_ROUNDS == stage.until(WayState.BROKEN)


def test_nothing_is_begun_while_the_engine_reaches_the_node_and_what_is_in_use_goes_by_its_own_proof():
    """A filter that knows the probes' ports and not those of these questions is no dead way."""
    for state in (WayState.BROKEN, WayState.TRIED):
        stage = Stage()
        stage.until(state)
        stage.is_missed = False
        assert stage.round() is WayState.CLEAR
        assert not stage.way.has_been_rerouted
    stage = _rerouted()
    stage.is_missed = False
    assert stage.round(20) is WayState.REROUTED
    assert stage.way.has_been_rerouted


def test_who_has_found_nobody_for_long_is_idle():
    """And gives its place to another node."""
    stage = Stage()
    stage.vouchers = {}
    stage.round(SILENT_ROUNDS + BUSY_ROUNDS)
    idle = [stage.way.is_idle]
    stage.round(SLOW_ROUNDS)
    assert [False, True] == [*idle, stage.way.is_idle]
    assert not _rerouted().way.is_idle


def test_all_neighbours_are_asked_in_turn_at_the_slow_pace_as_well():
    """Five of them, of which one is over in each round."""
    way, asked = OuterWay(FAR, PolicySettings(), is_slow=True), set()
    for now in range(SILENT_ROUNDS + 2 * SLOW_ROUNDS):
        questions = dict.fromkeys(way.questions(RELAYS[:5]))
        asked |= {each.relay for each in questions if each.way is Way.VOUCHED}
        if questions:
            way.observe(questions, RELAYS[:5], now, may_move=True)
    assert {each.name for each in RELAYS[:5]} == asked
    assert not way.is_idle


def test_what_an_earlier_process_has_left_is_proven_anew():
    """By the overlay alone; else it is left."""
    stage = Stage()
    stage.way.adopt(RELAYS[0], 0)
    assert stage.way.is_rerouted
    assert not stage.way.is_verified
    assert VERIFY_ROUNDS == stage.until(WayState.BROKEN)


def test_the_way_home_is_not_begun_before_the_overlay_has_been_answered_through_the_neighbour():
    """A node whose host answers all the while would be left and come home to in turns."""
    stage = Stage(hold_down=0, wait_to_restore=0)
    stage.answers[Way.DIRECT] = HERE
    stage.until(WayState.REROUTED)
    assert VERIFY_ROUNDS == stage.until(WayState.BROKEN)


def test_a_way_home_in_vain_is_not_taken_back_to_a_relay_that_has_died_meanwhile():
    """And what is taken back has to be proven anew."""
    for answer, state in ((None, WayState.BROKEN), (HERE, WayState.REROUTED)):
        stage = _rerouted(hold_down=0, wait_to_restore=0)
        stage.answers[Way.DIRECT] = HERE
        stage.until(WayState.RETURNING)
        stage.answers |= {Way.OVERLAY: None, Way.RELAYED: answer}
        assert stage.round(3) is state
        assert not stage.way.is_verified


def test_a_trial_ends_with_an_operators_pause():
    """Nothing is moved by itself from then on."""
    stage = Stage()
    stage.until(WayState.TRIED)
    stage.may_move = False
    assert stage.round() is WayState.BROKEN


def test_a_pause_in_the_middle_of_a_trial_says_nothing_of_the_neighbour():
    """It is tried again as soon as the pause is over, and no reason is given."""
    stage = Stage()
    stage.until(WayState.TRIED)
    stage.may_move = False
    assert stage.round() is WayState.BROKEN
    assert stage.way.relay is None
    assert "" == stage.way.reason
    stage.may_move = True
    assert stage.round() is WayState.TRIED


def test_the_reason_is_that_of_the_last_trial():
    """The first one hides the source, and the second one forwards nothing."""
    stage = Stage()
    stage.answers[Way.RELAYED] = WayAnswer(seen="10.81.0.12")
    stage.until(WayState.TRIED)
    stage.until(WayState.BROKEN)
    stage.vouchers["e3"] = WayAnswer()
    stage.until(WayState.TRIED)
    assert RELAYS[1] == stage.way.relay
    assert "e2 puts" in stage.way.reason
    stage.answers[Way.RELAYED] = None
    stage.round(TRIAL_ROUNDS)
    assert "packets through e3 are not answered" == stage.way.reason


def test_who_vouches_is_known_while_a_neighbour_is_refused():
    """Or what is said of the way would be gone for a moment after each trial."""
    stage = Stage()
    stage.answers[Way.RELAYED] = None
    stage.until(WayState.TRIED)
    stage.until(WayState.BROKEN)
    assert (RELAYS[0],) == stage.way.vouchers


def test_what_one_relay_has_answered_is_no_proof_of_the_next():
    """It begins with nothing."""
    stage = _rerouted()
    stage.answers |= {Way.OVERLAY: None, Way.RELAYED: HERE}
    stage.vouchers = {"e3": WayAnswer()}
    stage.until(WayState.TRIED)
    assert stage.way.relay == RELAYS[1]
    assert PROOF_ROUNDS == stage.until(WayState.REROUTED)


def test_silence_of_a_node_whose_agent_has_ended_is_no_loss():
    """The engine reaches the node, and no neighbour gets an answer of its agent either."""
    stage = _rerouted()
    stage.is_missed, stage.vouchers = False, {}
    stage.answers |= {Way.OVERLAY: None, Way.RELAYED: None}
    assert stage.round(60) is WayState.REROUTED
    stage.vouchers = {"e3": WayAnswer()}
    assert stage.until(WayState.BROKEN) <= 3


def test_the_engines_probes_prove_a_relay_where_these_questions_are_filtered_in_the_overlay():
    """And the way home as well; it would be held for ever otherwise."""
    stage = Stage(hold_down=0, wait_to_restore=0)
    stage.until(WayState.REROUTED)
    stage.is_missed, stage.vouchers = False, {}
    stage.answers[Way.DIRECT] = HERE
    assert VERIFY_ROUNDS == stage.until(WayState.RETURNING)
    assert VERIFY_ROUNDS == stage.until(WayState.CLEAR)
