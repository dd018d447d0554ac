from windlass.backends.port import JobEvent
from windlass.backends.simulator.timeline import Timeline
from windlass.core.lifecycle import events as e


def test_an_event_whose_state_was_refused_is_repeated_until_it_is_committed():
    timeline = Timeline(0)
    event = JobEvent("job-1", e.GangGone(1))
    timeline.report(event)
    assert timeline.take(None) == [event]
    timeline.acknowledge(1, {"job-1"})
    for _ in range(2):  # the second controller is killed before it hears anything
        timeline.redeliver_all()
        assert timeline.repeats_refused
    assert timeline.take(None) == [event]
    assert not timeline.repeats_refused
    timeline.redeliver_all()  # the third is killed before it commits
    assert timeline.repeats_refused
    assert timeline.take(None) == [event]
    timeline.acknowledge(1)
    timeline.redeliver_all()
    assert not timeline.repeats_refused
    assert timeline.over
