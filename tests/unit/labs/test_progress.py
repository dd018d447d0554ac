"""Progress survives what a learner does to its file."""

from dataclasses import replace

from windlass.labs.progress import LabRecord, LearnerProgress, QuizScore, change_lab, keep_score, read_progress


def test_records_and_scores_are_kept_side_by_side(tmp_path):
    path = tmp_path / "hidden/progress.json"
    change_lab(path, "c1", lambda record: replace(record, started_at=7), print)
    change_lab(path, "g1", lambda record: replace(record, hints=2), print)
    keep_score(path, "c-before", QuizScore(3, 4, 9), print)
    seen = read_progress(path, print)
    assert seen.of("c1") == LabRecord(started_at=7)
    assert seen.of("g1").hints == 2
    assert seen.of("l1") == LabRecord()
    assert seen.quizzes == {"c-before": QuizScore(3, 4, 9)}


def test_a_file_changed_by_hand_is_moved_aside_and_reported(tmp_path):
    path = tmp_path / "progress.json"
    for text in ("{", '{"labs": {"c1": {"checks": "many"}}}', ""):
        path.write_text(text)
        said = []
        assert read_progress(path, said.append) == LearnerProgress()
        assert "was changed by hand and cannot be read" in said[0]
        assert (tmp_path / "progress.damaged.json").read_text() == text
        assert read_progress(path, said.append) == LearnerProgress()
        assert len(said) == 1
