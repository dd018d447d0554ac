from __future__ import annotations

from unittest.mock import Mock

from windlass import wire
from windlass.core.model.job import Job, Role
from windlass.server.operator.cluster_data_source import ClusterDataSource


def test_of_a_jobs_variables_only_the_key_of_its_result_is_shown() -> None:
    job = Job("a", (Role(env={"HF_TOKEN": "x", "WINDLASS_CALL": "{}", wire.RESULT_KEY: "0a0a"}, pod="{}"),))
    [role] = ClusterDataSource(Mock(), Mock(), Mock()).redact(job).roles
    assert role.env == {"HF_TOKEN": "(hidden)", "WINDLASS_CALL": "(hidden)", wire.RESULT_KEY: "0a0a"}
    assert role.pod == ""
