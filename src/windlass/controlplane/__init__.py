"""A Kubernetes cluster on this machine for labs, demos and tests.

Its programs are built from Go modules (`programs`, `build`): etcd, kube-apiserver with TLS and RBAC, and if wanted
kube-controller-manager and kube-scheduler. `cluster.start` starts them as a `ControlPlane`. Its nodes are either
`fake_kubelet.FakeKubelets`, on which pods run by a script, or those of `real_nodes.start` (root only; sh
tools/install_nodes.sh), which really run containers:

    plane = cluster.start(folder / "plane", Settings(controllers=True))
    async with plane.api() as api, FakeKubelets(plane.admin) as fake:
        await fake.add_nodes(["n1", "n2"], gpus=8)
        await api.post("/api/v1/namespaces/default/pods", pod)

`plane.kubeconfig` is the administrator's file, `plane.user(name, groups)` makes one for any other user, and
`await plane.service_account(namespace, name)` one with a token. `await plane.restart(plane.apiserver)` kills a server
with SIGKILL and brings it back on its port and data; `plane.etcd.kill()` and `.start()` are the two halves, `.pause()`
and `.proceed()` stop and continue it.

Fake nodes refuse pods that exceed their free devices and record them in `fake.refused`; `fake.alive()` lists running
containers independently of the API. The behaviour of a pod is a `Script`: `Script(work=1.0, code=3).annotation()`.

On real nodes `torchrun`, `mpirun` and `sshd` are in every image, whatever its name: `real.know_images("a/b:1")`
adds the names that manifests have. Pods reach each other and services by name. `node.kubelet.pause()` makes a node
silent, `node.machine.power_off()` ends it.

Belongs here: programs, processes, keys and fakes that replace a cluster. Nothing here imports another package of
Windlass, because the tests of all of them observe through it.
"""
