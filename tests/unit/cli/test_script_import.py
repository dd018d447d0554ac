"""`windlass import`: a job file of a batch script, its losses on stderr, and its exit codes."""

import pytest

from windlass.cli.entry import main

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2 --partition=gpu\n#SBATCH --mail-user=a@example.org\nsrun ./train\n"


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.sbatch"
    path.write_text(SCRIPT)
    return path


def test_the_job_goes_to_standard_output_and_losses_to_standard_error(script, capsys):
    assert main(["import", str(script)]) == 0
    out, err = capsys.readouterr()
    assert "\nname: train\nqueue: gpu\nnodes: 2\n" in out
    reason = "no mail is sent; windlass run and windlass status report the end"
    assert err == f"windlass: {script}: line 3: --mail-user: {reason}\n"


def test_strict_fails_after_a_loss(script, capsys):
    assert main(["import", str(script), "--strict"]) == 1
    assert "name: train" in capsys.readouterr().out


def test_a_file_is_overwritten_only_by_force(script, tmp_path, capsys):
    job = tmp_path / "job.yaml"
    assert main(["import", str(script), "-o", str(job), "--queue", "research"]) == 0
    assert "queue: research\n" in job.read_text()
    assert main(["import", str(script), "-o", str(job)]) == 2
    assert "add --force to overwrite it" in capsys.readouterr().err
    assert main(["import", str(script), "-o", str(job), "--force"]) == 0
    assert "queue: gpu\n" in job.read_text()


def test_the_rendered_job_is_the_imported_one(script, tmp_path, capsys):
    job = tmp_path / "job.yaml"
    main(["import", str(script), "-o", str(job)])
    assert main(["render", str(job)]) == 0
    assert "name: train\nnodes: 2\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: Job\n", "this is a manifest, which needs no import"),
        ("#!/bin/sh\n#SBATCH -t x\nrun\n", "--time expects minutes, hours:minutes:seconds or days-hours, not 'x'"),
    ],
)
def test_wrong_scripts_are_one_error(tmp_path, capsys, content, message):
    path = tmp_path / "job.sbatch"
    path.write_text(content)
    assert main(["import", str(path)]) == 2
    assert message in capsys.readouterr().err
