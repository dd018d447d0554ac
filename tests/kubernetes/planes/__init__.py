"""The control plane of `windlass.controlplane` as fixtures, and the faults that tests give it.

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

`TcpProxy(plane.url)` is a connection that can be cut, `FaultProxy(plane, rules)` answers 429, 409 or nothing by its
rules; clients come through them by `user(…, url=proxy.url)`, and to the second by `service_account(…, url=proxy.url)`,
since it ends TLS.

One control plane serves all tests in a row that use it, and ends before the first file that does not:
`tidy.clear(api)` removes what a test made. A test that gets a grade by `request.getfixturevalue` carries a mark of its
name (`pytest.mark.apiserver`), so that the programs are built in time. By hand: `tools/control_plane.py up --nodes
1000`, or `up --real`.
"""
