"""Names that a job waits for become ids, by the condition of each."""

from dataclasses import replace

import pytest

from windlass.core.model.job import ArrayMember, Condition, Dependency, Job
from windlass.jobs.description.dependency_resolution import resolve_dependencies

IDS = {"prep": ["prep-1"], "grid": ["grid-2_0", "grid-2_1", "grid-2_10"], "train": ["train-3", "train-4"]}


def waits(*after: Dependency, index: int | None = None) -> list[str]:
    job = Job("train", (), after=after)
    if index is not None:
        job = replace(job, array=ArrayMember("train-9", index))
    found = resolve_dependencies(job, IDS.__getitem__, lambda name: IDS.get(name, []))
    return [f"{each.condition.value}:{each.job_id}" for each in found]


def test_an_array_is_each_of_its_members():
    found = waits(Dependency("prep"), Dependency("grid", Condition.FAILED))
    assert found == ["succeeded:prep-1", *(f"failed:{name}" for name in IDS["grid"])]


def test_a_member_waits_for_the_member_of_its_index():
    assert waits(Dependency("grid", Condition.MATCHING), index=0) == ["matching:grid-2_0"]
    assert waits(Dependency("prep", Condition.MATCHING), index=0) == ["matching:prep-1"]
    with pytest.raises(ValueError, match="grid has no member of index 7"):
        waits(Dependency("grid", Condition.MATCHING), index=7)


def test_earlier_jobs_of_a_name_may_be_none():
    assert waits(Dependency("train", Condition.EARLIER)) == ["earlier:train-3", "earlier:train-4"]
    assert waits(Dependency("other", Condition.EARLIER)) == []
