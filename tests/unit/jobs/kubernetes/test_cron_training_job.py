"""CronTrainingJobs: what is read, what follows at a time, and what each run looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from windlass.jobs.kubernetes.labels import CANCEL, SCHEDULE, SCHEDULED_AT, USER
from windlass.jobs.kubernetes.manifest_reader import ManifestError
from windlass.jobs.kubernetes.schedules.cron_training_job import CronTrainingJob, read, run_name, run_object
from windlass.jobs.kubernetes.schedules.run_plan import Run, plan_runs, read_runs, refused, status_fields
from windlass.jobs.kubernetes.schedules.schedule_row import schedule_row
from windlass.jobs.kubernetes.schedules.schedule_state import StoredSchedule, read_state, state_text
from windlass.jobs.kubernetes.status.status_times import milliseconds

MINUTE = 60_000
NIGHT = milliseconds("2026-03-10T03:00:00Z") or 0
DAY = 24 * 60 * MINUTE
CREATED = NIGHT - 60 * MINUTE


def manifest(about: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "nightly", "namespace": "vision", "uid": "u1", "creationTimestamp": "2026-03-10T02:00:00Z"}
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": {"command": "python train.py"}}
    fields = {"schedule": "0 3 * * *", "jobTemplate": template, **spec}
    return {"metadata": {**metadata, **(about or {})}, "spec": fields}


def cron(**spec: Any) -> CronTrainingJob:
    return read(manifest(**spec))


def run(due: int, end: str = "") -> Run:
    return Run(run_name("nightly", due), f"uid-{due}", due, due, end, due + MINUTE if end else None)


def started(schedule: CronTrainingJob) -> StoredSchedule:
    """The state after the first run was created."""
    plan = plan_runs(schedule, None, [], NIGHT)
    assert plan.start == NIGHT
    return replace(plan.stored, starting=None)


def messages(stored: StoredSchedule) -> list[str]:
    return [f"{each.kind}: {each.message}" for each in stored.status.notes]


def test_a_run_is_due_at_its_time_and_the_next_one_a_day_later() -> None:
    before = plan_runs(cron(), None, [], NIGHT - 1)
    assert (before.start, before.next) == (None, NIGHT)
    due = plan_runs(cron(), before.stored, [], NIGHT)
    assert (due.start, due.stored.starting) == (NIGHT, NIGHT)
    after = plan_runs(cron(), due.stored, [run(NIGHT)], NIGHT + MINUTE)
    assert (after.start, after.stored.starting, after.next) == (None, None, NIGHT + DAY)
    assert messages(after.stored) == [f"Started: {run_name('nightly', NIGHT)} for 2026-03-10 03:00 UTC"]


def test_an_operator_that_was_killed_before_the_run_existed_creates_it_under_the_same_name() -> None:
    decided = plan_runs(cron(), None, [], NIGHT).stored
    again = plan_runs(cron(), decided, [], NIGHT + MINUTE)
    assert (again.start, again.stored) == (NIGHT, decided)


def test_an_operator_that_was_killed_after_the_run_existed_creates_no_other() -> None:
    decided = plan_runs(cron(), None, [], NIGHT).stored
    for found in (run(NIGHT), run(NIGHT, "Succeeded")):
        assert plan_runs(cron(), decided, [found], NIGHT + MINUTE).start is None


def test_a_decided_run_is_missed_after_its_starting_deadline() -> None:
    schedule = cron(startingDeadlineSeconds=60)
    decided = plan_runs(schedule, None, [], NIGHT).stored
    late = plan_runs(schedule, decided, [], NIGHT + 2 * MINUTE)
    assert (late.start, late.stored.starting, late.stored.status.missed) == (None, None, 1)


def test_forbid_skips_a_time_while_a_run_is_active() -> None:
    plan = plan_runs(cron(), started(cron()), [run(NIGHT)], NIGHT + DAY)
    assert (plan.start, plan.cancelled, plan.stored.status.skipped) == (None, (), 1)


def test_queue_starts_the_run_when_the_previous_one_has_ended() -> None:
    schedule = cron(concurrencyPolicy="Queue")
    waits = plan_runs(schedule, started(schedule), [run(NIGHT)], NIGHT + DAY)
    assert (waits.start, waits.stored.status.waiting) == (None, NIGHT + DAY)
    ended = plan_runs(schedule, waits.stored, [run(NIGHT, "Failed")], NIGHT + DAY + MINUTE)
    assert ended.start == NIGHT + DAY


def test_replace_cancels_the_active_run_until_it_has_ended() -> None:
    schedule, active = cron(concurrencyPolicy="Replace"), run(NIGHT)
    first = plan_runs(schedule, started(schedule), [active], NIGHT + DAY)
    again = plan_runs(schedule, first.stored, [active], NIGHT + DAY + 1)
    assert first.cancelled == again.cancelled == (active,)
    assert plan_runs(schedule, again.stored, [run(NIGHT, "Failed")], NIGHT + DAY + 2).start == NIGHT + DAY


def test_only_the_latest_of_several_missed_times_is_made_up_for() -> None:
    plan = plan_runs(cron(), None, [], NIGHT + 3 * DAY)
    assert (plan.start, plan.stored.status.missed) == (NIGHT + 3 * DAY, 3)


def test_times_of_a_suspension_are_not_made_up_for() -> None:
    suspended = plan_runs(cron(suspend=True), None, [], NIGHT)
    assert (suspended.start, suspended.next) == (None, None)
    resumed = plan_runs(cron(), suspended.stored, [], NIGHT + DAY + MINUTE)
    assert (resumed.start, resumed.next) == (None, NIGHT + 2 * DAY)


def test_a_suspension_drops_a_run_that_was_decided_and_not_created() -> None:
    decided = plan_runs(cron(), None, [], NIGHT).stored
    plan = plan_runs(cron(suspend=True), decided, [], NIGHT + MINUTE)
    assert (plan.start, plan.stored.starting, plan.stored.status.skipped) == (None, None, 1)


def test_another_expression_decides_nothing_about_the_past() -> None:
    noon = NIGHT + 9 * 60 * MINUTE
    plan = plan_runs(cron(schedule="0 9 * * *"), started(cron()), [run(NIGHT, "Succeeded")], noon)
    assert plan.start is None


def test_times_are_in_the_zone_of_the_schedule() -> None:
    plan = plan_runs(cron(timeZone="America/New_York"), None, [], NIGHT)
    assert plan.next == milliseconds("2026-03-10T07:00:00Z")


def test_the_history_keeps_the_latest_ended_runs_of_each_kind() -> None:
    schedule = cron(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    ends = ["Succeeded", "Failed", "Succeeded", "Failed", ""]
    runs = [run(NIGHT + day * DAY, end) for day, end in enumerate(ends)]
    assert plan_runs(schedule, started(schedule), runs, NIGHT + MINUTE).removed == tuple(runs[:2])


def test_a_refused_run_is_noted_and_not_created_again() -> None:
    plan = plan_runs(cron(), None, [], NIGHT)
    after = refused(cron(), plan.stored, "exceeded quota", NIGHT)
    assert plan_runs(cron(), after, [], NIGHT + MINUTE).start is None
    assert messages(after)[-1] == "Refused: 2026-03-10 03:00 UTC: exceeded quota"


def test_a_run_belongs_to_its_schedule_and_names_its_user_and_time() -> None:
    made = run_object(cron(), run_name("nightly", NIGHT), due=NIGHT, user="ada")
    about = made["metadata"]
    assert about["name"] == f"nightly-{NIGHT // MINUTE}"
    assert about["labels"] == {"team": "vision", SCHEDULE: "nightly"}
    assert about["annotations"] == {SCHEDULED_AT: "2026-03-10T03:00:00Z", USER: "ada"}
    assert (made["kind"], made["spec"]) == ("TrainingJob", {"command": "python train.py"})
    uid_and_time = {"uid": "r1", "creationTimestamp": "2026-03-10T03:00:00Z"}
    [found] = read_runs("u1", [{**made, "metadata": {**about, **uid_and_time}}])
    assert (found.due, found.end) == (NIGHT, "")
    assert read_runs("another", [{**made, "metadata": {**about, **uid_and_time}}]) == []


def test_a_template_cannot_name_a_user_or_an_end() -> None:
    forged = {"metadata": {"annotations": {USER: "eve", CANCEL: "eve", "example.com/a": "b"}}, "spec": {"command": "x"}}
    made = run_object(cron(jobTemplate=forged), "nightly-1")
    assert made["metadata"]["annotations"] == {"example.com/a": "b"}


def test_the_status_shows_active_runs_and_the_last_success() -> None:
    runs = [run(NIGHT, "Succeeded"), run(NIGHT + DAY)]
    fields = status_fields(cron(), started(cron()), runs, {})
    assert fields["lastScheduleTime"] == "2026-03-10T03:00:00Z"
    assert fields["lastSuccessfulTime"] == "2026-03-10T03:01:00Z"
    [active] = fields["active"]  # type: ignore[misc]
    assert active["name"] == run_name("nightly", NIGHT + DAY)


def test_the_state_is_read_back() -> None:
    stored = plan_runs(cron(), None, [], NIGHT).stored
    assert read_state({"status": {"windlass": {"state": state_text(stored)}}}) == stored
    assert read_state({}) is None


@pytest.mark.parametrize("state", ["", "{}", "[]", "null", 7, '{"status":{"considered":-1},"times":""}', "[" * 5000])
def test_a_state_that_no_operator_writes_is_refused(state: object) -> None:
    with pytest.raises(ValueError):
        read_state({"status": {"windlass": {"state": state}}})


def row(state: str, **spec: Any) -> dict[str, Any]:
    """The row of a schedule with this state, a minute after its run was due."""
    return schedule_row({**manifest(**spec), "status": {"windlass": {"state": state}}}, NIGHT + MINUTE)


def test_a_row_has_the_state_and_the_next_time() -> None:
    found = row(state_text(started(cron())), concurrencyPolicy="Queue")
    assert (found["name"], found["policy"], found["last_run"], found["next"]) == (
        "nightly",
        "queue",
        NIGHT,
        NIGHT + DAY,
    )
    assert [each["kind"] for each in found["notes"]] == ["Started"]


@pytest.mark.parametrize("at", [253_402_300_799_000, NIGHT + DAY])
def test_a_state_of_the_far_future_is_not_shown(at: int) -> None:
    stored = started(cron())
    forged = replace(stored, status=replace(stored.status, considered=at))
    assert (row(state_text(forged))["next"], row(state_text(forged))["notes"]) == (NIGHT + DAY, [])
    assert row("[")["next"] == NIGHT + DAY


def test_a_schedule_that_cannot_be_read_has_a_row_that_says_why() -> None:
    found = row("", schedule="61 3 * * *")
    assert (found["cron"], found["suspended"], found["next"]) == ("61 3 * * *", True, None)
    [note] = found["notes"]
    assert note["message"].startswith("spec.schedule: expects a cron expression")
    assert schedule_row({**manifest(), "status": {"active": [{}, 7]}}, NIGHT)["active"] == []


def test_a_row_shows_only_the_beginning_of_an_expression_that_is_too_long() -> None:
    found = schedule_row(manifest(schedule="* " * 500_000), NIGHT)
    assert len(str(found)) < 1_000
    assert "expects five fields" in found["notes"][0]["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"schedule": "0 3 * *"}, "spec.schedule: expects five fields"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone: expects a name of the time zone database"),
        ({"concurrencyPolicy": "Allow"}, "spec.concurrencyPolicy: expects Forbid or Queue or Replace, not 'Allow'"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds: expects a whole number"),
        ({"failedJobsHistoryLimit": "many"}, "spec.failedJobsHistoryLimit: expects a whole number"),
        ({"suspend": "yes"}, "spec.suspend: expects true or false"),
        ({"jobTemplate": {}}, "spec.jobTemplate.spec: is missing"),
        ({"jobTemplate": []}, "spec.jobTemplate: expects a mapping"),
    ],
)
def test_a_malformed_field_is_named(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as error:
        cron(**spec)
    assert str(error.value).startswith(message)


def test_a_name_leaves_room_for_the_time_of_a_run() -> None:
    with pytest.raises(ManifestError, match="52 at most"):
        read(manifest({"name": "n" * 53}))
