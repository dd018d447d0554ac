"""A real Kubernetes control plane for tests, built from Go modules.

Three grades, each a fixture of the whole session (`fixtures.py`, registered for every folder by `tests/conftest.py`):

`apiserver`    etcd and kube-apiserver with TLS and RBAC; without controllers, so all changes are made by the test
`controllers`  and kube-controller-manager: garbage collection, namespaces, service accounts, batch Jobs, nodes' ends;
               and kube-scheduler, for pods that name no other
`real_nodes`   and two nodes that really run containers (root only; sh tools/install_nodes.sh)

The first two are a `cluster.ControlPlane`, the third is a `real_nodes.RealCluster` whose `plane` is one:

    def test_something(apiserver: ControlPlane) -> None:
        async def scenario() -> None:
            async with apiserver.api() as api, FakeKubelets(apiserver.admin) as fake:
                await fake.add_nodes(["n1", "n2"], gpus=8)
                await api.post("/api/v1/namespaces/default/pods", pod)

        asyncio.run(scenario())

`plane.kubeconfig` is the administrator's file, `plane.user(name, groups)` makes one for any other user, and
`await plane.service_account(namespace, name)` one with a token. `await plane.restart(plane.apiserver)` kills a server
with SIGKILL and brings it back on its port and data; `plane.etcd.kill()` and `.start()` are the two halves, `.pause()`
and `.proceed()` stop and continue it. `TcpProxy(plane.url)` is a connection that can be cut, `FaultProxy(plane, rules)`
answers 429, 409 or nothing by its rules; clients come through them by `user(…, url=proxy.url)`, and to the
second by `service_account(…, url=proxy.url)`, since it ends TLS.

Fake nodes refuse pods that exceed their free devices and record them in `fake.refused`; `fake.alive()` lists running
containers independently of the API. The behaviour of a pod is a `Script`: `Script(work=1.0, code=3).annotation()`.

On real nodes `torchrun`, `mpirun` and `sshd` are in every image, whatever its name: `real.know_images("a/b:1")`
adds the names that manifests have. Pods reach each other and services by name. `node.kubelet.pause()` makes a node
silent, `node.machine.power_off()` ends it.

One control plane serves all tests in a row that use it, and ends before the first file that does not:
`tidy.clear(api)` removes what a test made. A test that gets a grade by `request.getfixturevalue` carries a mark of its
name (`pytest.mark.apiserver`), so that the programs are built in time. By hand: `tools/control_plane.py up --nodes
1000`, or `up --real`.

Belongs here: programs, processes, keys and fakes that replace a cluster. Nothing here imports Windlass.
"""
