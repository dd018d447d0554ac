"""The check of a lab: findings in order, and evidence that cannot be read as one of them."""

import pytest
from small_lab import small_lab

from windlass.labs.check_result import check_lab
from windlass.labs.errors import LabStateError
from windlass.labs.evidence import lab as lab_module
from windlass.labs.lab_start import start_lab

UNREADABLE = """
from windlass.labs.evidence.findings import Finding

def check(lab):
    yield Finding(True, "first")
    lab.json("answer.txt")["x"]
"""


def findings(lab, folders):
    return [(each.met, each.what) for each in check_lab(lab, folders).findings]


def test_the_first_finding_that_is_not_met_is_the_refusal(lab, folders):
    start_lab(lab, folders, print)
    result = check_lab(lab, folders)
    assert not result.accepted
    assert findings(lab, folders) == [(True, "the lab is started"), (False, "the answer is right")]
    assert result.refusal is result.findings[1]


def test_unreadable_evidence_ends_the_check_with_a_finding_and_keeps_those_before(tmp_path, folders):
    lab = small_lab(tmp_path / "catalog", check=UNREADABLE)
    folder = start_lab(lab, folders, print).folder
    (folder / "answer.txt").write_text("{half")
    assert findings(lab, folders) == [
        (True, "first"),
        (False, "answer.txt is no JSON: it was changed, or its program was stopped"),
    ]


def test_a_lab_that_is_not_started_or_whose_folder_is_gone_says_so(lab, folders):
    with pytest.raises(LabStateError, match="the lab a7 is not started\nwindlass lab start a7"):
        check_lab(lab, folders)
    start_lab(lab, folders, print).folder.rename(folders.root / "moved")
    with pytest.raises(LabStateError, match="a7 is gone\nwindlass lab start a7 restores it"):
        check_lab(lab, folders)


def test_a_check_of_a_cluster_that_vanished_is_refused_with_the_way_back(tmp_path, folders):
    text = "def check(lab):\n    lab.kube('pods')\n    yield\n"
    lab = small_lab(tmp_path / "catalog", check=text)
    start_lab(lab, folders, print)
    refusal = check_lab(lab, folders).refusal
    assert (refusal.what, refusal.fix) == (
        "there is no cluster of the workshop",
        "windlass lab cluster up; then windlass lab start a7",
    )


def test_the_log_of_a_pod_has_its_lines_and_that_of_a_pod_that_is_gone_has_none(folders, monkeypatch):
    asked = []
    answers = iter(["rank 0\nrank 1\n", None])
    monkeypatch.setattr(lab_module, "get_text", lambda _kubeconfig, path: asked.append(path) or next(answers))
    lab = lab_module.Lab("a7", folders)
    assert [list(lab.pod_log("one")), list(lab.pod_log("gone"))] == [["rank 0", "rank 1"], []]
    assert asked[0].startswith("/api/v1/namespaces/lab-a7/pods/one/log?")
