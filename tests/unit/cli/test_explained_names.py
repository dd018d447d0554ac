"""`windlass explain NAME` and its completion: fields, checks, rules and causes by one command."""

import pytest

from windlass.cli.completion import complete_explained_names
from windlass.cli.entry import main
from windlass.cli.exit_codes import ExitCode
from windlass.cli.explained_names import explained_names, page_of


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("restart", "job.restart  <"),
        ("job", "job\n"),
        ("queues", "queue.spec\n"),
        ("cluster.queues", "cluster.queues  <list of fields>"),
        ("cluster.nodes.count", "cluster.nodes.count  <"),
        ("doctor", "doctor\n"),
        ("doctor.gpu.ecc", "gpu.ecc\n"),
        ("package-missing", "package-missing  (rule of windlass doctor"),
        ("doctor.package-missing", "package-missing  (rule of windlass doctor"),
        ("nccl-laggard-rank", "nccl-laggard-rank  (cause of windlass doctor)"),
        ("gpu-resource-misspelt", "gpu-resource-misspelt  (rule of windlass lint; error)"),
        ("lint.gpu-resource-misspelt", "gpu-resource-misspelt  (rule of windlass lint; error)"),
    ],
)
def test_a_name_has_its_page(name: str, first: str) -> None:
    assert page_of(name).startswith(first)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("pakage-missing", "no field, rule or cause is called 'pakage-missing'; did you mean 'package-missing'?"),
        ("restrat", "did you mean 'restart'?"),
        ("zzzz", "windlass explain job, doctor and lint list names"),
        ("doctor.gpu.ec", "did you mean 'gpu.ecc'?"),
        ("restart.usr", "did you mean 'user'?"),
    ],
)
def test_a_misspelt_name_is_one_clear_error(capsys: pytest.CaptureFixture[str], name: str, told: str) -> None:
    assert main(["explain", name]) == ExitCode.USAGE
    assert told in capsys.readouterr().err


def test_every_offered_name_has_a_page() -> None:
    assert all(page_of(name) for name in explained_names())


def test_completion_offers_the_names_that_begin_so() -> None:
    assert "package-missing" in complete_explained_names("package-")
    assert "doctor.gpu.ecc" in complete_explained_names("doctor.gpu.")
    assert {"restart", "network.efa"} <= set(complete_explained_names(""))
    assert complete_explained_names("zzzz") == []
