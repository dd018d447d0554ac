"""Lines of a listing."""

from types import SimpleNamespace

from windlass.core.model.job import Job, Role
from windlass.core.model.status import JobState, Phase, Status
from windlass.server.job_lookup import JobLookup


def test_jobs_with_one_id_have_a_line_each_in_their_order():
    source = SimpleNamespace(records=None, wait_verdict=lambda _job_id: None)
    job = Job("red", (Role("worker"),))
    states = [
        JobState("team/red", 1, job, Status(phase, str(phase), created_at=created, finished_at=created + 5))
        for created, phase in ((200, Phase.SUCCEEDED), (100, Phase.FAILED))
    ]
    lookup = JobLookup(None, source)
    for _ in range(2):
        lines = lookup.lines(states, {}, ("id", "phase"))
        assert [line["phase"] for line in lines] == ["Succeeded", "Failed"]
