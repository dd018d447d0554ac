"""The earliest start of a job, in files, on the command line, in batch scripts and in manifests."""

from datetime import UTC, datetime, timedelta

import pytest

from windlass.jobs.description.begin_time import read_begin
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.options import RunOptions, from_options
from windlass.jobs.description.rendering import render
from windlass.jobs.errors import InputError
from windlass.jobs.kubernetes.kinds import trainingjob
from windlass.jobs.kubernetes.manifest_reader import ManifestError, ManifestField
from windlass.jobs.kubernetes.other_schedulers.lost_fields import lost_fields
from windlass.jobs.kubernetes.other_schedulers.other_scheduler import OtherScheduler
from windlass.jobs.kubernetes.settings import Settings
from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.slurm.rendered_script import render_script
from windlass.jobs.syntax.text import Text

EIGHT = 1_795_852_800_000
"""2026-11-28T08:00Z"""


def job(text):
    [submission] = loads(text, source="job.yaml", base="/srv", user="ada")
    return submission


def typed(**options):
    return from_options(RunOptions(**options), ["python", "train.py"], cwd="/srv", user="ada")


def test_a_time_with_a_zone_is_the_same_on_every_machine():
    assert job('{command: a, begin: "2026-11-28T08:00Z"}').job.begin == EIGHT
    assert typed(begin="2026-11-28T09:00+01:00").job.begin == EIGHT


def test_words_count_from_the_submission():
    before = datetime.now(UTC).replace(microsecond=0)
    begin = datetime.fromtimestamp(typed(begin="now+2hours").job.begin / 1000, UTC)
    assert before <= begin - timedelta(hours=2) <= datetime.now(UTC)
    assert datetime.fromtimestamp(read_begin("midnight") / 1000, UTC) > before


def test_a_file_with_every_default_has_the_time_in_utc():
    written = render(typed(begin="2026-11-28T09:00+01:00"))
    assert "begin: '2026-11-28T08:00:00Z'" in written
    assert job(written).job.begin == EIGHT


@pytest.mark.parametrize("wrong", ["soon", "25:00", "1700000000", "2026-02-30T08:00"])
def test_another_text_is_refused(wrong):
    with pytest.raises(InputError, match=r"begin.* expects a time such as"):
        job(f'{{command: a, begin: "{wrong}"}}')
    with pytest.raises(InputError, match=r"--begin.* expects a time such as"):
        typed(begin=wrong)


def test_a_number_is_refused():
    with pytest.raises(InputError, match=r"expects a time .*not 1127"):
        job("{command: a, begin: 1127}")


def test_a_schedule_has_no_begin_time():
    with pytest.raises(InputError, match="begin is one time, and cron repeats this job; keep one of them"):
        job('{command: a, begin: tomorrow, cron: "@daily"}')


def test_a_batch_script_keeps_the_words_of_its_option():
    script = "#!/bin/bash\n#SBATCH --begin=now+1hour\nsrun ./train\n"
    read = import_script(Text("job.sbatch", script))
    assert read.fields["begin"] == "now+1hour"
    assert not read.losses
    with pytest.raises(InputError, match="--begin expects a time such as"):
        import_script(Text("job.sbatch", script.replace("now+1hour", "whenever")))


def test_a_rendered_batch_script_has_the_time_in_seconds_since_the_epoch():
    lines = render_script(typed(begin="2026-11-28T08:00:00.5Z")).text.splitlines()
    assert "#SBATCH --begin=uts1795852801" in lines
    again = import_script(Text("job.sbatch", "\n".join(lines)))
    assert read_begin(again.fields["begin"]) == EIGHT + 1000


def test_schedulers_of_others_know_no_begin_time():
    for target in OtherScheduler:
        assert any(text.startswith("begin: ") for text in lost_fields(typed(begin="tomorrow").job, target))


def manifest(begin):
    about = {"name": "digits", "namespace": "default", "uid": "u"}
    spec = {"image": "a", "command": ["a"], "begin": begin}
    return ManifestField(
        {"apiVersion": trainingjob.API_VERSION, "kind": "TrainingJob", "metadata": about, "spec": spec}
    )


def test_a_training_job_has_a_date_that_means_the_same_whenever_the_operator_reads_it():
    assert trainingjob.read(manifest("2026-11-28T08:00:00Z"), Settings()).job.begin == EIGHT
    with pytest.raises(ManifestError, match="expects a date and a time such as 2026-11-28T08:00Z"):
        trainingjob.read(manifest("now+1hour"), Settings())
