"""What can be known to be wrong is refused by the API server, each with the sentence that says how to mend it."""

from __future__ import annotations

import asyncio

import pytest
from controlplane.api import ApiError

from deploy.malformed import KINDS, malformed, whole
from deploy.samples import place
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault

ALL = malformed()


async def answer(api, manifest):
    """The refusal; empty if it was taken."""
    try:
        await api.post(place(manifest), manifest, dryRun="All")
    except ApiError as error:
        return str(error)
    return ""


def test_there_are_a_few_hundred():
    assert len(ALL) > 350


@pytest.fixture(scope="module")
def answers(with_kinds):
    async def story():
        async with with_kinds.api() as api:
            return await asyncio.gather(*(answer(api, each.manifest) for each in ALL))

    return asyncio.run(story())


def test_each_is_refused_with_its_sentence(answers):
    told = zip(ALL, answers, strict=True)
    wrong = [(each.name, each.sentence, said) for each, said in told if each.sentence not in said]
    assert wrong == []


def test_no_refusal_is_the_api_servers_own_failure(answers):
    assert all(said.startswith("422 Invalid") for said in answers)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}-{kind.version}")
def test_the_object_that_they_were_made_of_is_taken(told, kind):
    assert told(lambda api: answer(api, whole(kind))) == ""


def test_our_readers_refuse_them_too():
    """A definition is never stricter than the reader: what can be read can be stored."""
    passed = [each.name for each in ALL if each.read_too and not isinstance(read(each.manifest), Fault)]
    assert passed == []
