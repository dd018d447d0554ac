"""The manifests of the guide are valid."""

import re
from pathlib import Path

import yaml

from windlass.jobs.kubernetes.kinds.registry import KINDS, read
from windlass.jobs.kubernetes.manifest_reader import Fault

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "manifests.md"
MANIFESTS = [
    yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
]
OURS = {kind.name for kind in KINDS}


def templates(value):
    """Every pod template in a manifest."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value
        for inner in value.values():
            yield from templates(inner)
    if isinstance(value, list):
        for inner in value:
            yield from templates(inner)


def test_jobs_of_the_guide_are_read():
    jobs = [manifest for manifest in MANIFESTS if manifest["kind"] in OURS]
    assert {job["kind"] for job in jobs} == {"TrainingJob", "TrainJob"}
    for job in jobs:
        assert not isinstance(read(job), Fault), read(job)


def test_every_pod_of_the_others_names_the_scheduler_and_its_gang():
    others = [manifest for manifest in MANIFESTS if manifest["kind"] not in OURS]
    assert [other["kind"] for other in others] == ["Job", "CronJob", "JobSet"]
    for template in (found for other in others for found in templates(other)):
        assert template["spec"]["schedulerName"] == "windlass"
        assert template["metadata"]["labels"]["windlass.dev/gang"]
