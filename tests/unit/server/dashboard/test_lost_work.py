"""Lost work: what a restart repeats, what a failed job has not saved, and what was kept in memory."""

from windlass.server.dashboard.lost_work import StepRecord, losses

STARTED = {"event": "Started", "at": 0, "before": "Admitted", "after": "Running", "message": "Running"}
FAILED = {"event": "GangGone", "at": 60, "before": "Running", "after": "Failed", "message": "exit code 1"}
RECOVERED = {"event": "Recovered", "at": 60, "before": "Running", "after": "Running", "message": "recovered"}
RESTARTED = {"event": "MemberExited", "at": 60, "before": "Running", "after": "Restarting", "message": "SIGKILL"}


def test_a_failed_job_has_lost_the_steps_since_its_last_checkpoint() -> None:
    record = StepRecord([10, 20, 30, 40, 50], [100, 200, 300, 400, 500])
    assert losses([STARTED, FAILED], record, {200: 25, 600: 70}) == [
        {"at": 60, "text": "exit code 1", "steps": 300, "time": 40, "is_stop": False}
    ]


def test_ranks_that_go_on_from_memory_have_lost_nothing() -> None:
    record = StepRecord([10, 50, 70], [100, 500, 505])
    assert losses([STARTED, RECOVERED], record, {200: 25})[0]["steps"] == 0


def test_a_restart_repeats_the_steps_after_the_checkpoint() -> None:
    record = StepRecord([10, 20, 50, 70], [100, 200, 500, 230])
    assert losses([STARTED, RESTARTED], record, {200: 25}) == [
        {"at": 60, "text": "SIGKILL", "steps": 300, "time": 40, "is_stop": False}
    ]


def test_without_steps_only_the_time_since_the_checkpoint_is_known() -> None:
    assert losses([STARTED, FAILED], StepRecord(), {7: 45})[0] == {
        "at": 60, "text": "exit code 1", "steps": None, "time": 15, "is_stop": False,
    }  # fmt: skip


def test_unread_checkpoints_leave_the_loss_of_a_failed_job_unknown() -> None:
    found = losses([STARTED, FAILED], StepRecord([10], [100]), None)
    assert (found[0]["steps"], found[0]["time"]) == (None, None)


def test_an_end_with_success_and_a_wait_lose_nothing() -> None:
    done = {**FAILED, "after": "Succeeded"}
    queued = {"event": "Submitted", "at": 0, "before": "Created", "after": "Queued", "message": "Queued"}
    assert losses([queued, STARTED, done], StepRecord(), {}) == []


def test_the_last_step_of_ended_ranks_counts_although_telemetry_has_an_earlier_one() -> None:
    record = StepRecord([10, 50], [10, 48]).until(60, 50)
    assert losses([STARTED, FAILED], record, {40: 45})[0]["steps"] == 10


def test_a_stop_by_a_user_is_no_failure() -> None:
    cancelled = {**FAILED, "message": "Cancelled: cancelled by ann"}
    suspended = {**FAILED, "after": "Suspended", "message": "Suspended: suspended by ann"}
    assert [each["is_stop"] for each in losses([STARTED, suspended, cancelled], StepRecord(), {})] == [True, True]
    assert not losses([STARTED, FAILED], StepRecord(), {})[0]["is_stop"]
