"""Who makes up the next generation: the rules of a crew, told as stories."""

from windlass import wire
from windlass.agent import crew
from windlass.agent.crew import Able, Close, Crew, Done, Failed, Halt, Joined, Lost, Passed, Peer, Phase, Stopped

ELASTIC = crew.Rules(least=1, most=3, max_restarts=2, last_call=3.0, join_timeout=60.0, settle=3.0, gather=0.5)


def peer(name, place=-1, generation=0):
    return Peer(name, f"node-{name}", f"10.0.0.{ord(name)}", 4000, 2, place, generation)


def told(state, *events):
    """(what is true, every action) after (event, time) pairs."""
    actions = []
    for event, now in events:
        state, done = crew.step(state, event, now)
        actions += done
    return state, actions


def begun(rules=ELASTIC, **more):
    return Crew(rules, since=0.0, **more)


def running(rules=ELASTIC, names="abc"):
    """All have come; generation 1 runs since second 1."""
    joined = [(Joined(peer(name)), 1.0) for name in names]
    state, actions = told(begun(rules._replace(least=len(names), most=len(names))), *joined)
    assert [action.generation for action in actions] == [1]
    return state._replace(rules=rules)


def names(action):
    return "".join(member.id for member in action.members)


# --- gathering ------------------------------------------------------------------------------------------


def test_one_agent_alone_starts_at_once():
    state, [start] = told(begun(crew.Rules()), (Joined(peer("a")), 0.0))
    assert (start.generation, names(start), state.phase) == (1, "a", Phase.RUNNING)


def test_it_starts_as_soon_as_all_are_here():
    _, [start] = told(begun(), *[(Joined(peer(name)), 0.1) for name in "abc"])
    assert names(start) == "abc"


def test_with_enough_but_not_all_it_waits_for_a_last_call_after_the_last_arrival():
    state, actions = told(begun(), (Joined(peer("a")), 1.0), (Joined(peer("b")), 3.0))
    assert not actions
    assert crew.deadline(state) == 6.0
    _, [start] = told(state, (Passed(), 6.0))
    assert names(start) == "ab"


def test_too_few_wait_for_the_join_timeout_and_then_say_how_many_came():
    state, actions = told(begun(ELASTIC._replace(least=2)), (Joined(peer("a")), 1.0))
    assert not actions
    assert crew.deadline(state) == 60.0
    _, [close] = told(state, (Passed(), 60.0))
    assert close == Close(1, "1 of at least 2 nodes have come in 60 s")


def test_node_ranks_say_the_order_else_arrival_does():
    _, [start] = told(begun(), *[(Joined(peer(name, place)), 0.1) for name, place in (("a", 2), ("b", 0), ("c", 1))])
    assert names(start) == "bca"


# --- ends of ranks --------------------------------------------------------------------------------------


def test_the_run_is_over_when_all_have_ended_well():
    state, actions = told(running(), *[(Done(name, 1), 5.0) for name in "ab"])
    assert not actions
    assert told(state, (Done("c", 1), 6.0))[1] == [Close(0, "all ranks have ended well")]


def test_a_failed_rank_stops_all_and_the_next_generation_starts_when_all_have_stopped():
    state, actions = told(running(), (Failed("b", 1, -9, "rank 3 killed by SIGKILL"), 20.0))
    assert actions == [Halt(1, "rank 3 killed by SIGKILL")]
    state, actions = told(state, (Stopped("a", 1), 20.1), (Stopped("b", 1), 20.1))
    assert not actions
    state, [start] = told(state, (Stopped("c", 1), 20.2))
    assert (start.generation, names(start), start.restarts) == (2, "abc", 1)


def test_restarts_run_out():
    state = running(ELASTIC._replace(max_restarts=0))
    state, actions = told(state, (Failed("b", 1, 1, "rank 3 exited with 1"), 20.0))
    assert actions == [Halt(1, "rank 3 exited with 1")]
    _, actions = told(state, *[(Stopped(name, 1), 20.1) for name in "abc"])
    assert actions == [Close(1, "rank 3 exited with 1")]


def test_what_was_nobodys_fault_uses_up_no_restart():
    for code in (wire.ExitCode.PREEMPTED, wire.ExitCode.RETRY):
        state = running(ELASTIC._replace(max_restarts=0))
        _, actions = told(state, (Failed("b", 1, code, "asked to"), 20.0), *[(Stopped(n, 1), 20.1) for n in "abc"])
        assert (actions[-1].generation, actions[-1].restarts) == (2, 0)


def test_fatal_ends_the_run_however_many_restarts_are_left():
    _, actions = told(running(), (Failed("b", 1, 85, "bad mesh"), 20.0), *[(Stopped(n, 1), 20.1) for n in "abc"])
    assert actions[-1] == Close(85, "bad mesh")


def test_fatal_is_heard_also_from_a_rank_that_ended_second():
    state, _ = told(running(), (Failed("b", 1, 1, "lost its peer"), 20.0))
    _, actions = told(state, (Stopped("a", 1, 85), 20.1), (Stopped("b", 1), 20.1), (Stopped("c", 1), 20.1))
    assert actions[-1].code == 85


def test_news_of_an_older_generation_change_nothing():
    state, _ = told(running(), (Failed("b", 1, 1, "x"), 20.0), *[(Stopped(n, 1), 20.1) for n in "abc"])
    assert told(state, (Failed("c", 1, 1, "late"), 20.2), (Done("c", 1), 20.3), (Stopped("c", 1), 20.4)) == (state, [])


def test_generations_that_end_quickly_wait_longer_each_time():
    state, now, waits = running(names="a", rules=crew.Rules(max_restarts=9)), 1.0, []
    for generation in range(1, 6):
        state, _ = told(state, (Failed("a", generation, 84, "again"), now + 1), (Stopped("a", generation), now + 1))
        at = crew.deadline(state)
        waits.append(0.0 if state.phase is Phase.RUNNING else at - now - 1)
        state, _ = told(state, (Passed(), at or now + 1))
        now = state.since
    assert waits == [0.0, 0.0, 2.0, 4.0, 8.0]


def test_a_jobs_backoff_is_waited_for_from_the_second_restart_in_a_row_on():
    rules = crew.Rules(max_restarts=9, backoff=1.0, backoff_most=3.0, healthy=600.0)
    state, now, waits = running(names="a", rules=rules), 1.0, []
    for generation, lived in enumerate([700.0, 400.0, 400.0, 400.0, 600.0, 1.0], 1):
        ended = now + lived
        state, _ = told(state, (Failed("a", generation, 1, "again"), ended), (Stopped("a", generation), ended))
        at = crew.deadline(state)
        waits.append(0.0 if state.phase is Phase.RUNNING else at - ended)
        state, _ = told(state, (Passed(), at or ended))
        now = state.since
    assert waits == [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]


def test_survivors_that_re_form_wait_for_nothing():
    rules = crew.Rules(max_restarts=9, backoff=100.0, backoff_most=300.0, healthy=600.0)
    state = running(names="a", rules=rules)._replace(quick=5)
    _, [start] = told(state, (Able("a", 1), 2.0), (Failed("a", 1, 1, "again"), 3.0))
    assert start.keep


# --- nodes that come and go -----------------------------------------------------------------------------


def test_a_lost_node_costs_no_restart_and_the_others_go_on_at_once():
    state, actions = told(running(), (Lost("b"), 20.0))
    assert actions == [Halt(1, "node node-b is lost")]
    _, actions = told(state, (Stopped("a", 1), 20.1), (Stopped("c", 1), 20.1))
    assert (actions[-1].generation, names(actions[-1]), actions[-1].restarts) == (2, "ac", 0)


def test_a_node_that_is_lost_while_all_stop_is_not_waited_for():
    state, _ = told(running(), (Failed("b", 1, 1, "x"), 20.0), (Stopped("a", 1), 20.1), (Stopped("b", 1), 20.1))
    _, [start] = told(state, (Lost("c"), 23.0))
    assert names(start) == "ab"


def test_with_too_few_left_it_waits_for_others():
    state, _ = told(
        running(ELASTIC._replace(least=3)), (Lost("b"), 20.0), (Stopped("a", 1), 20.1), (Stopped("c", 1), 20.1)
    )
    assert (state.phase, crew.deadline(state)) == (Phase.GATHERING, 80.1)
    _, [start] = told(state, (Joined(peer("d")), 30.0))
    assert names(start) == "acd"


def test_a_newcomer_starts_a_new_generation_together_with_others_right_behind_it():
    state, actions = told(running(names="a"), (Joined(peer("b")), 20.0), (Joined(peer("c")), 20.3))
    assert not actions
    assert crew.deadline(state) == 20.8
    state, actions = told(state, (Passed(), 20.8))
    assert actions == [Halt(1, "more nodes have come", planned=True)]
    _, [start] = told(state, (Stopped("a", 1), 20.9))
    assert (start.generation, names(start), start.restarts) == (2, "abc", 0)


def test_beyond_the_largest_crew_a_newcomer_is_a_spare_until_one_is_lost():
    state, actions = told(running(), (Joined(peer("d")), 20.0), (Passed(), 30.0))
    assert not actions
    _, actions = told(state, (Lost("a"), 40.0), (Stopped("b", 1), 40.1), (Stopped("c", 1), 40.1))
    assert names(actions[-1]) == "bcd"


def test_nobody_is_restarted_for_a_newcomers_sake_when_some_are_done():
    _, actions = told(running(names="ab"), (Done("a", 1), 20.0), (Joined(peer("c")), 21.0), (Passed(), 30.0))
    assert not actions


def test_an_agent_that_comes_back_before_it_was_missed_has_stopped_its_ranks():
    state, actions = told(running(), (Joined(peer("b", generation=1)), 20.0))
    assert actions == [Halt(1, "node node-b is lost")]
    _, [start] = told(state, (Stopped("a", 1), 20.1), (Stopped("c", 1), 20.1))
    assert names(start) == "acb"


# --- another leader -------------------------------------------------------------------------------------


def test_a_new_leader_starts_as_soon_as_all_it_knows_of_have_come_over():
    taken_over = begun(expected=frozenset("bc"), seen=7, restarts=1)
    state, actions = told(taken_over, (Joined(peer("b")), 0.1))
    assert not actions
    assert crew.deadline(state) == 3.0
    _, [start] = told(state, (Joined(peer("c")), 0.3))
    assert (start.generation, start.restarts) == (8, 1)


def test_generations_only_grow_whoever_has_seen_them():
    _, [start] = told(
        begun(), *[(Joined(peer(name, generation=seen)), 0.1) for name, seen in (("a", 0), ("b", 5), ("c", 2))]
    )
    assert start.generation == 6


def test_after_the_end_nothing_happens_any_more():
    state, _ = told(running(names="a"), (Done("a", 1), 2.0))
    assert told(state, (Lost("a"), 3.0), (Joined(peer("b")), 3.0), (Passed(), 99.0)) == (state, [])
    assert crew.deadline(state) is None


# --- survivors that re-form ------------------------------------------------------------------------------


def able(state, names="abc", generation=1):
    return told(state, *[(Able(name, generation), 2.0) for name in names])[0]


def test_where_all_ranks_can_re_form_a_lost_one_is_replaced_and_nobody_is_stopped():
    state, [start] = told(able(running()), (Failed("b", 1, -9, "rank 3 killed by SIGKILL"), 20.0))
    assert (start.keep, start.generation, names(start), start.restarts) == (True, 2, "abc", 1)
    assert start.why == "rank 3 killed by SIGKILL"
    assert state.phase is Phase.RUNNING


def test_where_a_node_is_lost_the_others_re_form_if_they_are_enough():
    _, [start] = told(able(running()), (Lost("b"), 20.0))
    assert (start.keep, names(start), start.restarts) == (True, "ac", 0)
    _, actions = told(able(running(ELASTIC._replace(least=3))), (Lost("b"), 20.0))
    assert actions == [Halt(1, "node node-b is lost")]


def test_one_rank_that_cannot_is_enough_for_all_to_start_anew():
    _, actions = told(able(running(), "ab"), (Failed("b", 1, 1, "x"), 20.0))
    assert actions == [Halt(1, "x")]


def test_a_rank_that_hangs_can_take_no_membership_so_all_start_anew():
    _, actions = told(able(running()), (Failed("b", 1, 1, "hang: rank 3", hangs=True), 20.0))
    assert actions == [Halt(1, "hang: rank 3")]


def test_ranks_that_have_not_re_formed_in_time_are_started_anew():
    state, _ = told(able(running()), (Failed("b", 1, -9, "killed"), 20.0))
    _, actions = told(state, (Failed("c", 2, 84, "rank 5 is not in generation 2"), 25.0))
    assert actions == [Halt(2, "rank 5 is not in generation 2")]
