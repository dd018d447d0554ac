"""The rules of the rendezvous, event by event."""

from windlass import wire
from windlass.agent.rank_events import FINAL, UNCOUNTED, RankFailed, RanksReady, RanksStopped, RanksSucceeded
from windlass.agent.rendezvous import state_machine
from windlass.agent.rendezvous.state_machine import (
    AgentJoined,
    AgentLost,
    EndRun,
    Peer,
    RendezvousPhase,
    RendezvousRules,
    RendezvousState,
    StopRanks,
    TimePassed,
)

ELASTIC = RendezvousRules(
    min_agents=1, max_agents=3, max_restarts=2, last_call=3.0, join_timeout=60.0, settle=3.0, gather=0.5
)


def peer(name, place=-1, generation=0):
    return Peer(name, f"node-{name}", f"10.0.0.{ord(name)}", 4000, 2, place, generation)


def after(state, *events):
    """(state, all actions) after (event, time) pairs."""
    actions = []
    for event, now in events:
        state, done = state_machine.step(state, event, now)
        actions += done
    return state, actions


def begun(rules=ELASTIC, **more):
    return RendezvousState(rules, since=0.0, **more)


def running(rules=ELASTIC, names="abc"):
    """The state in which all agents have come and generation 1 runs since second 1."""
    joined = [(AgentJoined(peer(name)), 1.0) for name in names]
    state, actions = after(begun(rules._replace(min_agents=len(names), max_agents=len(names))), *joined)
    assert [action.generation for action in actions] == [1]
    return state._replace(rules=rules)


def names(action):
    return "".join(member.id for member in action.members)


# --- gathering ------------------------------------------------------------------------------------------


def test_one_agent_alone_starts_at_once():
    state, [start] = after(begun(RendezvousRules()), (AgentJoined(peer("a")), 0.0))
    assert (start.generation, names(start), state.phase) == (1, "a", RendezvousPhase.RUNNING)


def test_a_generation_starts_as_soon_as_all_agents_are_here():
    _, [start] = after(begun(), *[(AgentJoined(peer(name)), 0.1) for name in "abc"])
    assert names(start) == "abc"


def test_enough_agents_wait_for_the_last_call_after_the_last_arrival():
    state, actions = after(begun(), (AgentJoined(peer("a")), 1.0), (AgentJoined(peer("b")), 3.0))
    assert not actions
    assert state_machine.deadline(state) == 6.0
    _, [start] = after(state, (TimePassed(), 6.0))
    assert names(start) == "ab"


def test_too_few_agents_wait_for_the_join_timeout_and_report_how_many_came():
    state, actions = after(begun(ELASTIC._replace(min_agents=2)), (AgentJoined(peer("a")), 1.0))
    assert not actions
    assert state_machine.deadline(state) == 60.0
    _, [close] = after(state, (TimePassed(), 60.0))
    assert close == EndRun(1, "1 of at least 2 nodes have come in 60 s")


def test_node_ranks_give_the_order_and_arrival_does_without_them():
    _, [start] = after(
        begun(), *[(AgentJoined(peer(name, place)), 0.1) for name, place in (("a", 2), ("b", 0), ("c", 1))]
    )
    assert names(start) == "bca"


# --- ends of ranks --------------------------------------------------------------------------------------


def test_the_run_is_over_when_all_have_ended_well():
    state, actions = after(running(), *[(RanksSucceeded(name, 1), 5.0) for name in "ab"])
    assert not actions
    assert after(state, (RanksSucceeded("c", 1), 6.0))[1] == [EndRun(0, "all ranks have succeeded")]


def test_a_failed_rank_stops_all_and_the_next_generation_starts_when_all_have_stopped():
    state, actions = after(running(), (RankFailed("b", 1, -9, "rank 3 killed by SIGKILL"), 20.0))
    assert actions == [StopRanks(1, "rank 3 killed by SIGKILL")]
    state, actions = after(state, (RanksStopped("a", 1), 20.1), (RanksStopped("b", 1), 20.1))
    assert not actions
    state, [start] = after(state, (RanksStopped("c", 1), 20.2))
    assert (start.generation, names(start), start.restarts) == (2, "abc", 1)


def test_a_failure_without_restarts_left_ends_the_run():
    state = running(ELASTIC._replace(max_restarts=0))
    state, actions = after(state, (RankFailed("b", 1, 1, "rank 3 exited with 1"), 20.0))
    assert actions == [StopRanks(1, "rank 3 exited with 1")]
    _, actions = after(state, *[(RanksStopped(name, 1), 20.1) for name in "abc"])
    assert actions == [EndRun(1, "rank 3 exited with 1")]


def test_an_uncounted_failure_uses_no_restart():
    for code in (wire.RankExitCode.PREEMPTED, wire.RankExitCode.RETRY):
        state = running(ELASTIC._replace(max_restarts=0))
        _, actions = after(
            state, (RankFailed("b", 1, code, "asked to", UNCOUNTED), 20.0), *[(RanksStopped(n, 1), 20.1) for n in "abc"]
        )
        assert (actions[-1].generation, actions[-1].restarts) == (2, 0)


def test_a_fatal_code_ends_the_run_however_many_restarts_are_left():
    _, actions = after(
        running(), (RankFailed("b", 1, 85, "bad mesh", FINAL), 20.0), *[(RanksStopped(n, 1), 20.1) for n in "abc"]
    )
    assert actions[-1] == EndRun(85, "bad mesh")


def test_a_fatal_code_of_a_rank_that_ended_second_ends_the_run():
    state, _ = after(running(), (RankFailed("b", 1, 1, "lost its peer"), 20.0))
    _, actions = after(
        state, (RanksStopped("a", 1, 85), 20.1), (RanksStopped("b", 1), 20.1), (RanksStopped("c", 1), 20.1)
    )
    assert actions[-1].code == 85


def test_events_of_an_older_generation_change_nothing():
    state, _ = after(running(), (RankFailed("b", 1, 1, "x"), 20.0), *[(RanksStopped(n, 1), 20.1) for n in "abc"])
    assert after(
        state, (RankFailed("c", 1, 1, "late"), 20.2), (RanksSucceeded("c", 1), 20.3), (RanksStopped("c", 1), 20.4)
    ) == (state, [])


def test_generations_that_end_quickly_wait_longer_each_time():
    state, now, waits = running(names="a", rules=RendezvousRules(max_restarts=9)), 1.0, []
    for generation in range(1, 6):
        state, _ = after(
            state,
            (RankFailed("a", generation, 84, "again", UNCOUNTED), now + 1),
            (RanksStopped("a", generation), now + 1),
        )
        at = state_machine.deadline(state)
        waits.append(0.0 if state.phase is RendezvousPhase.RUNNING else at - now - 1)
        state, _ = after(state, (TimePassed(), at or now + 1))
        now = state.since
    assert waits == [0.0, 0.0, 2.0, 4.0, 8.0]


def test_the_backoff_of_a_budget_delays_the_second_restart_in_a_row():
    rules = RendezvousRules(max_restarts=9, immediate=1, backoff_base=1.0, backoff_max=3.0, healthy_after=600.0)
    state, now, waits = running(names="a", rules=rules), 1.0, []
    for generation, lived in enumerate([700.0, 400.0, 400.0, 400.0, 600.0, 1.0], 1):
        ended = now + lived
        state, _ = after(
            state, (RankFailed("a", generation, 1, "again"), ended), (RanksStopped("a", generation), ended)
        )
        at = state_machine.deadline(state)
        waits.append(0.0 if state.phase is RendezvousPhase.RUNNING else at - ended)
        state, _ = after(state, (TimePassed(), at or ended))
        now = state.since
    assert waits == [0.0, 1.0, 2.0, 3.0, 0.0, 1.0]


def test_survivors_re_form_without_a_delay():
    rules = RendezvousRules(max_restarts=9, immediate=1, backoff_base=100.0, backoff_max=300.0, healthy_after=600.0)
    state = running(names="a", rules=rules)._replace(failures_in_a_row=5)
    _, [start] = after(state, (RanksReady("a", 1), 2.0), (RankFailed("a", 1, 1, "again"), 3.0))
    assert start.keep


# --- nodes that come and go -----------------------------------------------------------------------------


def test_a_lost_node_costs_no_restart_and_the_others_go_on_at_once():
    state, actions = after(running(), (AgentLost("b"), 20.0))
    assert actions == [StopRanks(1, "node node-b is lost")]
    _, actions = after(state, (RanksStopped("a", 1), 20.1), (RanksStopped("c", 1), 20.1))
    assert (actions[-1].generation, names(actions[-1]), actions[-1].restarts) == (2, "ac", 0)


def test_a_node_that_is_lost_while_all_stop_is_not_waited_for():
    state, _ = after(
        running(), (RankFailed("b", 1, 1, "x"), 20.0), (RanksStopped("a", 1), 20.1), (RanksStopped("b", 1), 20.1)
    )
    _, [start] = after(state, (AgentLost("c"), 23.0))
    assert names(start) == "ab"


def test_too_few_remaining_agents_wait_for_others():
    state, _ = after(
        running(ELASTIC._replace(min_agents=3)),
        (AgentLost("b"), 20.0),
        (RanksStopped("a", 1), 20.1),
        (RanksStopped("c", 1), 20.1),
    )
    assert (state.phase, state_machine.deadline(state)) == (RendezvousPhase.GATHERING, 80.1)
    _, [start] = after(state, (AgentJoined(peer("d")), 30.0))
    assert names(start) == "acd"


def test_newcomers_that_follow_each_other_join_in_one_generation():
    state, actions = after(running(names="a"), (AgentJoined(peer("b")), 20.0), (AgentJoined(peer("c")), 20.3))
    assert not actions
    assert state_machine.deadline(state) == 20.8
    state, actions = after(state, (TimePassed(), 20.8))
    assert actions == [StopRanks(1, "more nodes have come", planned=True)]
    _, [start] = after(state, (RanksStopped("a", 1), 20.9))
    assert (start.generation, names(start), start.restarts) == (2, "abc", 0)


def test_a_surplus_newcomer_is_a_spare_until_an_agent_is_lost():
    state, actions = after(running(), (AgentJoined(peer("d")), 20.0), (TimePassed(), 30.0))
    assert not actions
    _, actions = after(state, (AgentLost("a"), 40.0), (RanksStopped("b", 1), 40.1), (RanksStopped("c", 1), 40.1))
    assert names(actions[-1]) == "bcd"


def test_a_newcomer_restarts_no_ranks_once_some_have_succeeded():
    _, actions = after(
        running(names="ab"), (RanksSucceeded("a", 1), 20.0), (AgentJoined(peer("c")), 21.0), (TimePassed(), 30.0)
    )
    assert not actions


def test_an_agent_that_returns_before_it_was_missed_counts_as_lost():
    state, actions = after(running(), (AgentJoined(peer("b", generation=1)), 20.0))
    assert actions == [StopRanks(1, "node node-b is lost")]
    _, [start] = after(state, (RanksStopped("a", 1), 20.1), (RanksStopped("c", 1), 20.1))
    assert names(start) == "acb"


# --- another leader -------------------------------------------------------------------------------------


def test_a_new_leader_starts_as_soon_as_all_expected_agents_have_come():
    taken_over = begun(expected=frozenset("bc"), seen=7, restarts=1)
    state, actions = after(taken_over, (AgentJoined(peer("b")), 0.1))
    assert not actions
    assert state_machine.deadline(state) == 3.0
    _, [start] = after(state, (AgentJoined(peer("c")), 0.3))
    assert (start.generation, start.restarts) == (8, 1)


def test_a_generation_follows_the_newest_that_any_agent_has_seen():
    _, [start] = after(
        begun(), *[(AgentJoined(peer(name, generation=seen)), 0.1) for name, seen in (("a", 0), ("b", 5), ("c", 2))]
    )
    assert start.generation == 6


def test_events_after_the_end_change_nothing():
    state, _ = after(running(names="a"), (RanksSucceeded("a", 1), 2.0))
    assert after(state, (AgentLost("a"), 3.0), (AgentJoined(peer("b")), 3.0), (TimePassed(), 99.0)) == (state, [])
    assert state_machine.deadline(state) is None


# --- survivors that re-form ------------------------------------------------------------------------------


def reformable(state, names="abc", generation=1):
    return after(state, *[(RanksReady(name, generation), 2.0) for name in names])[0]


def test_a_lost_rank_is_replaced_without_a_stop_where_all_ranks_can_re_form():
    state, [start] = after(reformable(running()), (RankFailed("b", 1, -9, "rank 3 killed by SIGKILL"), 20.0))
    assert (start.keep, start.generation, names(start), start.restarts) == (True, 2, "abc", 1)
    assert start.reason == "rank 3 killed by SIGKILL"
    assert state.phase is RendezvousPhase.RUNNING


def test_the_agents_that_remain_re_form_if_they_are_enough():
    _, [start] = after(reformable(running()), (AgentLost("b"), 20.0))
    assert (start.keep, names(start), start.restarts) == (True, "ac", 0)
    _, actions = after(reformable(running(ELASTIC._replace(min_agents=3))), (AgentLost("b"), 20.0))
    assert actions == [StopRanks(1, "node node-b is lost")]


def test_one_rank_that_cannot_re_form_makes_all_start_anew():
    _, actions = after(reformable(running(), "ab"), (RankFailed("b", 1, 1, "x"), 20.0))
    assert actions == [StopRanks(1, "x")]


def test_a_hang_makes_all_ranks_start_anew():
    _, actions = after(reformable(running()), (RankFailed("b", 1, 1, "hang: rank 3", hangs=True), 20.0))
    assert actions == [StopRanks(1, "hang: rank 3")]


def test_ranks_that_do_not_re_form_in_time_are_started_anew():
    state, _ = after(reformable(running()), (RankFailed("b", 1, -9, "killed"), 20.0))
    _, actions = after(state, (RankFailed("c", 2, 84, "rank 5 is not in generation 2", UNCOUNTED), 25.0))
    assert actions == [StopRanks(2, "rank 5 is not in generation 2")]
