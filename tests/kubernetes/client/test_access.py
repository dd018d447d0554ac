import asyncio
import base64
import contextlib
import json
import ssl
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from client.fake_api import fake_api, pod, refuses, says

from windlass.backends.kubernetes.client.access import AccessError, from_kubeconfig, in_cluster
from windlass.backends.kubernetes.client.api_errors import Unreachable
from windlass.backends.kubernetes.client.connection import Connection
from windlass.backends.kubernetes.client.resources import PODS
from windlass.controlplane.certificates import make_authority


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_tls(authority, tmp_path_factory):
    """A server that requires a client certificate signed by our authority."""
    pair = authority.server(tmp_path_factory.mktemp("server"), "api", ["127.0.0.1", "api.example"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.pair.certificate))
    tls.load_cert_chain(pair.certificate, pair.key)
    tls.verify_mode = ssl.CERT_OPTIONAL
    return tls


def coded(file):
    return base64.b64encode(Path(file).read_bytes()).decode()


def written(folder, server, user, **cluster):
    file = folder / "kubeconfig"
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(yaml.safe_dump(content))
    return str(file)


def plugin(folder, script, **more):
    """A user whose credentials come from a shell script."""
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    api = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": api, "command": str(file), "interactiveMode": "Never", **more}}


def credential(status):
    exec_credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(exec_credential)}'"


@contextlib.asynccontextmanager
async def connected(api, folder, user, **cluster):
    async with Connection(from_kubeconfig(written(folder, api.url, user, **cluster))) as connection:
        yield connection


async def knows(request):
    """Answers with the identity of the request."""
    ours = request.transport.get_extra_info("peercert")
    names = dict(part[0] for part in ours["subject"]) if ours else {}
    seen = {"who": request.headers.get("Authorization"), "certificate": names.get("commonName")}
    return await says(pod(seen=seen))(request)


async def seen(connection):
    return (await connection.get(PODS, "ns", "p"))["seen"]


def test_certificates_are_taken_from_files_and_from_the_text(authority, server_tls, tmp_path, monkeypatch):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    mine = authority.client(tmp_path, "me")
    by_file = {"client-certificate": str(mine.certificate), "client-key": str(mine.key)}
    by_text = {"client-certificate-data": coded(mine.certificate), "client-key-data": coded(mine.key)}

    async def story():
        async with fake_api(usual=knows, tls=server_tls) as api:
            file = {"certificate-authority": str(authority.pair.certificate)}
            async with connected(api, tmp_path, by_file, **file) as connection:
                assert (await seen(connection))["certificate"] == "me"
            text = {"certificate-authority-data": coded(authority.pair.certificate)}
            async with connected(api, tmp_path, by_text, **text) as connection:
                assert (await seen(connection))["certificate"] == "me"
                assert list(scratch.iterdir()) == []

    asyncio.run(story())


def test_a_server_with_another_authority_is_reported_at_once(server_tls, tmp_path):
    async def story():
        async with fake_api(usual=knows, tls=server_tls) as api, connected(api, tmp_path, {"token": "t"}) as connection:
            with pytest.raises(Unreachable, match="is not who the configuration says"):
                await seen(connection)

    asyncio.run(story())


def test_a_server_certificate_is_verified_against_the_given_name(authority, server_tls, tmp_path):
    async def story():
        async with fake_api(usual=knows, tls=server_tls) as api:
            ours = {"certificate-authority": str(authority.pair.certificate)}
            async with connected(api, tmp_path, {"token": "t"}, **ours, **{"tls-server-name": "api.example"}) as right:
                assert (await seen(right))["who"] == "Bearer t"
            async with connected(api, tmp_path, {"token": "t"}, **ours, **{"tls-server-name": "other"}) as wrong:
                with pytest.raises(Unreachable):
                    await seen(wrong)
            async with connected(api, tmp_path, {"token": "t"}, **{"insecure-skip-tls-verify": True}) as any_at_all:
                assert (await seen(any_at_all))["who"] == "Bearer t"

    asyncio.run(story())


def test_a_plugin_runs_again_when_the_token_is_refused(tmp_path):
    async def answer(request):
        good = request.headers["Authorization"] == "Bearer t2"
        return await (knows(request) if good else refuses(401, "Unauthorized")(request))

    async def story():
        count = tmp_path / "count"
        script = f"echo x >> {count}; n=$(wc -l < {count}); " + credential({"token": "t$n"}).replace("t$n", "t'$n'")
        async with fake_api(usual=answer) as api, connected(api, tmp_path, plugin(tmp_path, script)) as connection:
            assert [(await seen(connection))["who"] for _ in range(3)] == ["Bearer t2"] * 3
            assert count.read_text() == "x\nx\n"

    asyncio.run(story())


def test_a_plugin_runs_again_before_its_token_expires(tmp_path, monkeypatch):
    async def story():
        count = tmp_path / "count"
        for ends, runs in ((timedelta(hours=1), 1), (timedelta(seconds=-1), 2)):
            expiry = (datetime.now(UTC) + ends).strftime("%Y-%m-%dT%H:%M:%SZ")
            user = plugin(tmp_path, f"echo x >> {count}; {credential({'token': 't', 'expirationTimestamp': expiry})}")
            count.write_text("")
            monkeypatch.setattr("windlass.backends.kubernetes.client.kubeconfig.MIN_RENEWAL_INTERVAL_S", -1.0)
            async with fake_api(usual=knows) as api, connected(api, tmp_path, user) as connection:
                await seen(connection)
                await seen(connection)
                assert count.read_text() == "x\n" * runs

    asyncio.run(story())


def test_a_plugin_gets_its_arguments_and_environment(tmp_path):
    async def story():
        script = 'test "$1 $REGION" = "login eu" || exit 9; ' + credential({"token": "t"})
        user = plugin(tmp_path, script, args=["login"], env=[{"name": "REGION", "value": "eu"}])
        async with fake_api(usual=knows) as api, connected(api, tmp_path, user) as connection:
            assert (await seen(connection))["who"] == "Bearer t"

    asyncio.run(story())


def test_a_plugin_may_return_a_certificate(authority, server_tls, tmp_path):
    async def story():
        mine = authority.client(tmp_path, "plugged")
        status = {"clientCertificateData": mine.certificate.read_text(), "clientKeyData": mine.key.read_text()}
        trace = tmp_path / "said"
        trace.write_text(credential(status)[6:-1])
        user = plugin(tmp_path, f"cat {trace}")
        ours = {"certificate-authority": str(authority.pair.certificate)}
        async with fake_api(usual=knows, tls=server_tls) as api, connected(api, tmp_path, user, **ours) as connection:
            assert (await seen(connection))["certificate"] == "plugged"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo please log in >&2; exit 3", "process returned 3. please log in"),
        ("echo hello", "failed to decode process output"),
        ("echo '{}'", "missing key"),
    ],
)
def test_a_failed_plugin_is_reported_in_one_line(tmp_path, capfd, script, why):
    async def story():
        async with fake_api() as api, connected(api, tmp_path, plugin(tmp_path, script)) as connection:
            with pytest.raises(AccessError, match=why) as raised:
                await seen(connection)
            assert "\n" not in str(raised.value)

    asyncio.run(story())
    assert capfd.readouterr().err == ""


def test_a_missing_plugin_is_reported_with_its_hint(tmp_path):
    async def story():
        user = plugin(tmp_path, "", command="no-such-plugin", installHint="pip install it")
        async with fake_api() as api, connected(api, tmp_path, user) as connection:
            with pytest.raises(AccessError, match="the plugin no-such-plugin, which is not there: pip install it"):
                await seen(connection)

    asyncio.run(story())


def test_a_rotated_token_of_a_service_account_is_read_again(authority, server_tls, tmp_path):
    for name, text in (("token", "one\n"), ("namespace", "mine"), ("ca.crt", authority.pair.certificate.read_text())):
        (tmp_path / name).write_text(text)

    async def answer(request):
        expected = f"Bearer {(tmp_path / 'token').read_text().strip()}"
        good = request.headers["Authorization"] == expected
        return await (knows(request) if good else refuses(401, "Unauthorized")(request))

    async def story():
        async with fake_api(usual=answer, tls=server_tls) as api:
            host, port = api.url.removeprefix("https://").split(":")
            access = in_cluster(tmp_path, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})
            assert access.namespace == "mine"
            async with Connection(access) as connection:
                assert (await seen(connection))["who"] == "Bearer one"
                first = (await access.identify(False)).tls
                (tmp_path / "token").write_text("two")
                assert (await seen(connection))["who"] == "Bearer two"
                assert (await access.identify(False)).tls is first

    asyncio.run(story())


def test_the_library_is_loaded_without_its_client_and_stays_complete_for_others():
    program = (
        "import sys; from windlass.backends.kubernetes.client.config_library import load_library\n"
        "found = load_library()\n"
        "assert found.kubeconfig.KubeConfigLoader and found.in_cluster.InClusterConfigLoader\n"
        "print([name for name in sys.modules if name.startswith('kubernetes_asyncio')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
