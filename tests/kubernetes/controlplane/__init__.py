"""A real Kubernetes control plane for the tests, built from Go modules.

Three grades, each a fixture of the whole session (`fixtures.py`, handed to every folder by `tests/conftest.py`):

`apiserver`    etcd and kube-apiserver: TLS, RBAC, and nobody else, so nothing happens that a test does not do
`controllers`  and kube-controller-manager: garbage collection, namespaces, service accounts, batch Jobs, nodes' ends;
               and kube-scheduler, for pods that name no other
`real_nodes`   and two nodes that really run containers (root only; sh tools/install_nodes.sh)

The first two are a `cluster.ControlPlane`, the third is a `real_nodes.RealCluster` whose `plane` is one:

    def test_something(apiserver: ControlPlane) -> None:
        async def story() -> None:
            async with apiserver.api() as api, FakeKubelets(apiserver.admin) as fake:
                await fake.add_nodes(["n1", "n2"], gpus=8)
                await api.post("/api/v1/namespaces/default/pods", pod)

        asyncio.run(story())

`plane.kubeconfig` is the administrator's file, `plane.user(name, groups)` makes anybody else's, and
`await plane.service_account(namespace, name)` one with a token. `await plane.restart(plane.apiserver)` kills a server
with SIGKILL and brings it back on its port and data; `plane.etcd.kill()` and `.start()` are the two halves, `.pause()`
and `.proceed()` stop it in its tracks. `TcpProxy(plane.url)` is a wire that can be cut, `FaultProxy(plane, rules)`
answers 429, 409 or nothing to what its rules say; clients come through them by `user(…, url=proxy.url)`, and to the
second by `service_account(…, url=proxy.url)`, since it ends TLS.

Fake nodes refuse pods that they have no devices left for and keep them in `fake.refused`; `fake.alive()` is the truth
about containers, whatever the API says. What a pod does is a `Script`: `Script(work=1.0, code=3).annotation()`.

On real nodes `torchrun`, `mpirun` and `sshd` are in every image, whatever its name: tell `real.know_images("a/b:1")`
the names that manifests have. Pods reach each other and services by name. `node.kubelet.pause()` makes a node silent,
`node.machine.power_off()` ends it.

One control plane serves all tests of a session: `tidy.clear(api)` removes what one of them made. A test that gets a
grade by `request.getfixturevalue` carries a mark of its name (`pytest.mark.apiserver`), so that the programs are built
in time. By hand: `tools/control_plane.py up --nodes 1000`, or `up --real`.

Inside belong programs, processes, keys and fakes: what stands in for a cluster. Nothing here imports Windlass.
"""
