"""The content of a submission."""

from windlass.cli.job_submission import submission_context


def test_the_environment_of_a_submission_has_no_secret_of_another_gang(monkeypatch):
    monkeypatch.setenv("WINDLASS_GANG_SECRET", "5f" * 32)
    monkeypatch.setenv("MY_VARIABLE", "kept")
    environment = submission_context()["environment"]
    assert environment["MY_VARIABLE"] == "kept"
    assert "WINDLASS_GANG_SECRET" not in environment
