"""The state of a job as read from its object before the operator has admitted it."""

from __future__ import annotations

import random

import pytest
from faults.foreign_objects import foreign_status
from faults.mutations import mutated

from windlass.backends.kubernetes.client.resources import named
from windlass.cli.errors import UsageError
from windlass.cli.kubernetes.job_finder import RESOURCES, listing_order
from windlass.cli.kubernetes.job_objects import JobObject
from windlass.cli.kubernetes.run import prepare_objects
from windlass.cli.kubernetes.submission import SubmitObjects, SubmitRequest
from windlass.jobs.description.options import RunOptions

TRAINING = named("windlass.dev/v1alpha1", "trainingjobs", "TrainingJob")


def found(*conditions: dict[str, str]) -> JobObject:
    metadata = {"name": "digits", "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"image": "x", "command": "python train.py"}
    status = {"conditions": list(conditions)}
    kind = {"apiVersion": TRAINING.api_version, "kind": TRAINING.kind}
    return JobObject(TRAINING, {**kind, "metadata": metadata, "spec": spec, "status": status})


def test_a_job_that_is_not_accepted_has_the_reason_of_its_condition() -> None:
    why = "there is no PersistentVolumeClaim data in namespace ml; create it"
    waiting = found({"type": "Accepted", "status": "False", "reason": "Waiting", "message": why}).state().status
    assert (waiting.reason, waiting.message) == ("Waiting", why)


def test_a_job_without_conditions_is_not_seen_yet() -> None:
    assert found().state().status.reason == "NotSeen"
    assert found({"type": "Accepted", "status": "True"}).state().status.reason == "NotSeen"


def test_a_namespace_on_the_command_line_does_not_move_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {"kind": "TrainingJob", "metadata": {"name": "digits", "namespace": "ml"}}
    monkeypatch.setattr("windlass.cli.kubernetes.run.build_objects", lambda *_: SubmitObjects([manifest], [], []))
    with pytest.raises(
        UsageError, match="the manifest of digits names the namespace ml, the command line names team-b"
    ):
        prepare_objects(_Nowhere(), SubmitRequest(RunOptions(), (), None), "team-b")  # type: ignore[arg-type]


class _Nowhere:
    finder = None


def test_every_malformed_job_can_be_listed() -> None:
    chance = random.Random(5)  # noqa: S311 - faults, not secrets
    of_kind = {each.kind: each for each in RESOURCES}
    malformed = [each for each in mutated(500, seed=5) if each.get("kind") in of_kind]
    assert len(malformed) > 400
    for each in malformed:
        metadata = {**each["metadata"], "namespace": "ml", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
        listed = JobObject(of_kind[each["kind"]], {**each, "metadata": metadata, "status": foreign_status(chance)})
        assert listing_order(listed.state())
        assert isinstance(listed.suspended, bool)
        assert isinstance(listed.ended, bool)
        assert isinstance(listed.unplaceable_reason, str)
        assert listed.id
        assert isinstance(listed.array, str)
