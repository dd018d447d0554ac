"""A kind is removed when no version of it is served for long enough; without an answer nothing is decided."""

import asyncio

import pytest
from client.fake_api import fake_api, refuses, says

from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.identity import constant_access
from windlass.backends.kubernetes.client.resources import named
from windlass.backends.kubernetes.served_kinds import KindRemoval

MPIJOBS = named("kubeflow.org/v1", "mpijobs", "MPIJob")
GROUP = says({"versions": [{"groupVersion": "kubeflow.org/v1"}, {"groupVersion": "kubeflow.org/v2beta1"}]})
OTHERS = says({"resources": [{"name": "tfjobs"}]})
THERE = says({"resources": [{"name": "mpijobs"}]})
MISSING = refuses(404, "NotFound")


def ask(*tricks, after_s=0.0, times=1):
    async def run():
        async with fake_api(*tricks) as api, Connection(constant_access(api.url)) as connection:
            removal = KindRemoval(connection, MPIJOBS, after_s)
            return [await removal.is_removed() for _ in range(times)]

    return asyncio.run(run())


@pytest.mark.parametrize("tricks", [(MISSING,), (GROUP, OTHERS, MISSING), (GROUP, OTHERS, OTHERS)])
def test_a_kind_that_no_version_serves_is_removed(tricks):
    assert ask(*tricks) == [True]


def test_a_kind_that_another_version_serves_is_not_removed():
    assert ask(GROUP, OTHERS, THERE) == [False]


def test_a_kind_is_not_removed_before_its_time():
    assert ask(MISSING, MISSING, after_s=3600.0, times=2) == [False, False]


def test_a_refusal_decides_nothing():
    assert ask(refuses(403, "Forbidden")) == [False]
