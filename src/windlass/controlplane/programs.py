"""The programs of a cluster: the Go module of each, and its build."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

MODULES = Path(__file__).parent / "modules"
KUBERNETES = "k8s.io/kubernetes"
ETCD = "go.etcd.io/etcd/server/v3"
CONTAINERD = "github.com/containerd/containerd/v2"
KUEUE, JOBSET = "sigs.k8s.io/kueue", "sigs.k8s.io/jobset"
SCHEDULER_PLUGINS = "sigs.k8s.io/scheduler-plugins"
CONTROLLER_TOOLS = "sigs.k8s.io/controller-tools"
HELM = "helm.sh/helm/v4"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5"


@dataclass(frozen=True, slots=True)
class GoProgram:
    """One program. `module` is a folder of `modules`; `requires` is what its go.mod requires, whose version counts."""

    name: str
    module: str
    requires: str
    package: str

    @property
    def version(self) -> str:
        """The version that the module requires."""
        return version_of(self.module, self.requires)


PROGRAMS = {
    program.name: program
    for program in (
        GoProgram("etcd", "etcd", ETCD, ETCD),
        GoProgram("kube-apiserver", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-apiserver"),
        GoProgram("kube-controller-manager", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-controller-manager"),
        GoProgram("kube-scheduler", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-scheduler"),
        GoProgram("kubectl", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kubectl"),
        GoProgram("kubelet", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kubelet"),
        GoProgram("containerd", "containerd", CONTAINERD, f"{CONTAINERD}/cmd/containerd"),
        GoProgram("containerd-shim-runc-v2", "containerd", CONTAINERD, f"{CONTAINERD}/cmd/containerd-shim-runc-v2"),
        GoProgram("ctr", "containerd", CONTAINERD, f"{CONTAINERD}/cmd/ctr"),
        GoProgram("kustomize", "kustomize", KUSTOMIZE, KUSTOMIZE),
        GoProgram("helm", "helm", HELM, f"{HELM}/cmd/helm"),
        GoProgram("kueue", "kueue", KUEUE, f"{KUEUE}/cmd/kueue"),
        GoProgram("jobset", "kueue", JOBSET, JOBSET),
        GoProgram("coscheduler", "coscheduling", SCHEDULER_PLUGINS, f"{SCHEDULER_PLUGINS}/cmd/scheduler"),
        GoProgram("controller-gen", "volcano", CONTROLLER_TOOLS, f"{CONTROLLER_TOOLS}/cmd/controller-gen"),
    )
}
"""In the order in which tests need them."""

API_SERVER = ("etcd", "kube-apiserver")
INSTALLERS = (*API_SERVER, "kubectl", "kustomize", "helm")
CONTROLLERS = (*API_SERVER, "kube-controller-manager", "kube-scheduler")
REAL_NODES = (*CONTROLLERS, "kubelet", "containerd", "containerd-shim-runc-v2", "ctr")


@cache
def version_of(module: str, requires: str) -> str:
    """The version that a go.mod requires of a module: "v1.36.3"."""
    text = (MODULES / module / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(requires)} (v\S+)", text, re.MULTILINE)
    if not found:
        raise ValueError(f"{module}/go.mod does not require {requires}")
    return found[1]


def build_arguments(program: GoProgram) -> Sequence[str]:
    """Returns the arguments of `go build`: a small, reproducible program with its version."""
    stamps = ["-s", "-w"]
    if program.requires == KUBERNETES:
        major, minor, _ = program.version.removeprefix("v").split(".")
        stamped = {"gitVersion": program.version, "gitMajor": major, "gitMinor": minor}
        stamps += [f"-X k8s.io/component-base/version.{name}={value}" for name, value in stamped.items()]
    tags = "no_btrfs,no_devmapper,no_zfs" if program.requires == CONTAINERD else ""
    return ("-trimpath", "-buildvcs=false", f"-tags={tags}", f"-ldflags={' '.join(stamps)}")
