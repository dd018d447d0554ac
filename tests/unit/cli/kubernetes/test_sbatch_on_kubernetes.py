"""`sbatch` on a cluster: the code that it ships."""

import base64
import io
import tarfile
from pathlib import Path


def test_sbatch_ships_the_current_folder(cluster, submit, windlass, tmp_path):
    (tmp_path / "config/windlass").mkdir(parents=True)
    (tmp_path / "config/windlass/config.yaml").write_text("image: example.com/base:1\n")
    Path("train.py").write_text("print('hello')\n")
    Path("job.sbatch").write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n")

    ran = windlass("sbatch", "--parsable", "--on", "kubernetes", "job.sbatch")

    job, code = *cluster.of_kind("TrainingJob"), *cluster.of_kind("ConfigMap")
    assert (ran.code, ran.out) == (0, f"team/{job['metadata']['name']}\n")
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(code["binaryData"]["code.tar.gz"]))) as archive:
        assert archive.getnames() == ["job.sbatch", "train.py"]
    assert ran.err.startswith("windlass: shipping the code: 2 files, ")
