"""The machine that a lab needs: folders of its own, and for labs on a cluster one cluster for all of them."""

import os

import pytest
from pipeline_programs import pipeline_environment, python_path

from windlass.controlplane import kueue as kueue_programs
from windlass.controlplane.build import BuildError
from windlass.controlplane.cluster_folder import ClusterError
from windlass.labs.errors import LabError
from windlass.labs.lab_cluster import cluster_down, cluster_up
from windlass.labs.lab_description import LabDescription
from windlass.labs.lab_folders import LabFolders
from windlass.labs.lab_needs import check_needs
from windlass.labs.lab_reset import reset_lab


class Clusters:
    """The cluster of the session: started once, by the first lab that needs one."""

    def __init__(self, folders, *, kueue):
        self.folders, self.kueue, self.running = folders, kueue, None

    def serve(self, lab):
        if self.running is None:
            self.running = cluster_up(self.folders.cluster, print, kueue=self.kueue)
        if "real-nodes" in lab.facts.needs and not self.running.real:
            pytest.skip("real nodes need root, and Debian's packages that `windlass lab cluster up` names")
        return self.folders

    def close(self):
        cluster_down(self.folders.cluster)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory, request):
    played = [item.callspec.params.get("lab") for item in request.session.items if hasattr(item, "callspec")]
    kueue = any("kueue" in lab.facts.needs for lab in played if isinstance(lab, LabDescription))
    made = Clusters(LabFolders(tmp_path_factory.mktemp("workshop")), kueue=kueue and not kueue_programs.lacking())
    yield made
    made.close()


@pytest.fixture
def machine_of(tmp_path, monkeypatch, request, clusters):
    """Returns the folders of the workshop for a lab; at the end the lab is reset, and has left nothing behind."""
    used = []
    for name in ("WINDLASS_ON", "WINDLASS_STATE", "WINDLASS_LAB", "KUBECONFIG", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)

    def make(lab):
        if "kfp" in lab.facts.needs:  # in an environment of its own, as its pins exclude those of the project
            monkeypatch.setenv("PATH", str(pipeline_environment() / "bin"), prepend=os.pathsep)
            monkeypatch.setenv("PYTHONPATH", python_path(tmp_path / "metadata"))
        try:
            check_needs(lab)
            if "kueue" in lab.facts.needs and (lacking := kueue_programs.lacking()):
                pytest.skip(lacking)
            folders = clusters.serve(lab) if lab.needs_cluster else LabFolders(tmp_path / "labs")
        except (LabError, ClusterError, BuildError) as lacking:
            pytest.skip(str(lacking))
        used.append((lab, folders))
        return folders

    yield make
    for lab, folders in used:
        reset_lab(lab, folders, print)
        assert not folders.learner(lab.facts.id).exists()
        assert not folders.own(lab.facts.id).exists()
