"""The API server refuses invalid manifests, each with a message that tells the fix."""

from __future__ import annotations

import asyncio

import pytest

from deploy.refused_manifests import KINDS, malformed, whole
from deploy.samples import place
from windlass.controlplane.api import ApiError
from windlass.jobs.kubernetes.kinds.registry import read
from windlass.jobs.kubernetes.manifest_reader import Fault

ALL = malformed()


async def answer(api, manifest):
    """Message of the refusal; empty if the manifest was accepted."""
    try:
        await api.post(place(manifest), manifest, dryRun="All")
    except ApiError as error:
        return str(error)
    return ""


def test_the_table_has_a_few_hundred_manifests():
    assert len(ALL) > 350


@pytest.fixture(scope="module")
def answers(with_kinds):
    async def story():
        async with with_kinds.api() as api:
            return await asyncio.gather(*(answer(api, each.manifest) for each in ALL))

    return asyncio.run(story())


def test_each_manifest_is_refused_with_its_message(answers):
    pairs = zip(ALL, answers, strict=True)
    wrong = [(each.name, each.sentence, answer) for each, answer in pairs if each.sentence not in answer]
    assert wrong == []


def test_no_refusal_is_the_api_servers_own_failure(answers):
    assert all(answer.startswith("422 Invalid") for answer in answers)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind}-{kind.version}")
def test_the_unchanged_manifest_is_accepted(run_on_api, kind):
    assert run_on_api(lambda api: answer(api, whole(kind))) == ""


def test_our_readers_refuse_the_same_manifests():
    """A definition is never stricter than the reader: every readable manifest can be stored."""
    passed = [each.name for each in ALL if each.read_too and not isinstance(read(each.manifest), Fault)]
    assert passed == []
