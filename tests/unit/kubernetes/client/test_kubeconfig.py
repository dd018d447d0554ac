import asyncio

import pytest
import yaml

from windlass.backends.kubernetes.client import access as accesses
from windlass.backends.kubernetes.client.access import AccessError, find, from_kubeconfig, in_cluster


def config(*contexts, current=None, clusters=None, users=None):
    """A kubeconfig in which every context has a cluster and a user of its own name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters
        or [{"name": name, "cluster": {"server": f"http://{name}.example:8080/"}} for name in contexts],
        "users": users or [{"name": name, "user": {"token": f"token-{name}"}} for name in contexts],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}} for name in contexts
        ],
        **({"current-context": current} if current else {}),
    }


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write kubeconfigs; $KUBECONFIG names them all in this order."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    files = []

    def write(content, name=None):
        file = tmp_path / (name or f"config-{len(files)}")
        file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        files.append(str(file))
        monkeypatch.setenv("KUBECONFIG", ":".join(files))
        return file

    return write


def identity(access, *, renew=False):
    return asyncio.run(access.identify(renew))


def test_the_current_context_gives_the_server_and_the_user(write):
    write(config("a", "b", current="b"))
    access = find()
    assert (access.server, access.context, access.namespace) == ("http://b.example:8080", "b", "of-b")
    assert identity(access).authorization == "Bearer token-b"
    assert identity(access).tls is None


def test_a_context_can_be_named(write):
    write(config("a", "b", current="b"))
    assert find("a").server == "http://a.example:8080"


def test_several_files_are_merged_and_the_first_names_the_current_context(write):
    write(config("a", current="a"))
    write(config("b", current="b"))
    assert find().context == "a"
    assert identity(find("b")).authorization == "Bearer token-b"


def test_files_of_the_list_that_do_not_exist_do_not_matter(write, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", f"/nowhere/config:{write(config('a', current='a'))}")
    assert find().context == "a"


def test_a_file_can_be_named(write):
    write(config("a", current="a"))
    other = write(config("b", current="b"))
    assert from_kubeconfig(str(other)).context == "b"


def test_the_default_file_is_used_without_the_variable(write, tmp_path, monkeypatch):
    (tmp_path / ".kube").mkdir()
    write(config("a", current="a"), ".kube/config")
    monkeypatch.delenv("KUBECONFIG")
    assert find().context == "a"


def test_tokens_are_read_from_files_without_their_last_line_end(write, tmp_path):
    (tmp_path / "token").write_text("secret\n")
    write(config("a", current="a", users=[{"name": "a", "user": {"tokenFile": "token"}}]))
    assert identity(find()).authorization == "Bearer secret"


def test_a_file_that_changed_is_read_again_when_the_token_is_refused(write):
    write(config("a", current="a"), "config")
    access = find()
    assert identity(access).authorization == "Bearer token-a"
    write(config("a", current="a", users=[{"name": "a", "user": {"token": "new"}}]), "config")
    assert identity(access).authorization == "Bearer token-a"
    assert identity(access, renew=True).authorization == "Bearer new"


def test_password_and_names_for_proxies_are_taken(write):
    cluster = {"server": "http://x", "tls-server-name": "api", "proxy-url": "http://proxy:3128"}
    users = [{"name": "a", "user": {"username": "me", "password": "pw"}}]
    write(config("a", current="a", clusters=[{"name": "a", "cluster": cluster}], users=users))
    access = find()
    assert (access.server_name, access.proxy) == ("api", "http://proxy:3128")
    assert identity(access).authorization == "Basic bWU6cHc="


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://far.example:6443", "http://proxy:3128"),
        ("https://near.example", None),
        ("https://127.0.0.1:6443", None),
        ("http://far.example", None),
    ],
)
def test_the_proxy_of_the_environment_counts_as_it_does_for_kubectl(write, monkeypatch, server, proxy):
    write(config("a", current="a", clusters=[{"name": "a", "cluster": {"server": server}}]))
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "near.example")
    assert find().proxy == proxy


def test_a_missing_kubeconfig_is_reported_with_the_fix(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(AccessError, match=r"there is no kubeconfig: ~/.kube/config does not exist; .*KUBECONFIG=FILE"):
        find()


def test_an_unknown_context_is_reported_with_the_known_ones(write):
    write(config("a", "b", current="gone"))
    with pytest.raises(AccessError, match="has no context c; it has a, b"):
        find("c")
    with pytest.raises(AccessError, match="has no context gone; it has a, b"):
        find()


def test_a_missing_current_context_is_reported_with_the_known_ones(write):
    write(config("a", "b"))
    with pytest.raises(AccessError, match="no current context: name one of a, b"):
        find()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "7",
        "{",
        "a: b",
        "clusters: 7\ncontexts: 8\ncurrent-context: x",
        "contexts:\n- 7\ncurrent-context: x",
        "contexts:\n- name: x\ncurrent-context: x",
        "contexts:\n- name: x\n  context: {cluster: y, user: z}\ncurrent-context: x",
        "contexts:\n- name: x\n  context: {cluster: y}\nclusters: [{name: y, cluster: {}}]\ncurrent-context: x",
        "contexts:\n- name: x\n  context: {cluster: y}\nclusters: [{name: y}]\ncurrent-context: x",
        "\0",
    ],
)
def test_a_malformed_kubeconfig_is_reported_in_one_line(write, content):
    file = write(content)
    with pytest.raises(AccessError, match=str(file)) as raised:
        identity(find())
    assert "\n" not in str(raised.value)


def test_a_missing_certificate_is_reported(write):
    cluster = {"server": "https://x", "certificate-authority": "ca.crt"}
    write(config("a", current="a", clusters=[{"name": "a", "cluster": cluster}]))
    with pytest.raises(AccessError, match=r"ca\.crt"):
        identity(find())


def test_a_process_outside_a_cluster_gets_an_error(tmp_path):
    with pytest.raises(AccessError, match="service account"):
        in_cluster(tmp_path, {})


def test_every_public_name_is_importable():
    assert all(hasattr(accesses, name) for name in accesses.__all__)
