"""Fields for Kubernetes are reported to have no effect on this machine."""

from windlass.cli.job_submission import warn_unused_fields
from windlass.jobs.description.job_file import loads


def test_fields_without_effect_are_reported(capsys):
    warn_unused_fields(loads("command: python a.py\nimage: a:1\npod: {spec: {serviceAccountName: b}}"))
    assert capsys.readouterr().err == "windlass: a: image and pod have no effect on this machine\n"
    warn_unused_fields(loads("command: python a.py"))
    assert capsys.readouterr().err == ""
