from windlass.deploy.installation import IMAGE, installation_objects
from windlass.deploy.network_policies import job_namespace_policy
from windlass.deploy.operator import Setup


def one(kind, name="windlass-operator"):
    objects = installation_objects(Setup(IMAGE))
    return next(each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name))


def test_the_operators_pods_accept_connections_on_their_container_ports_only():
    [ingress] = one("NetworkPolicy")["spec"]["ingress"]
    [container] = one("Deployment")["spec"]["template"]["spec"]["containers"]
    assert ingress == {"ports": [{"protocol": "TCP", "port": port["containerPort"]} for port in container["ports"]]}


def test_the_policy_selects_the_operators_pods_in_its_namespace():
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    policy = one("NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["metadata"]["namespace"] == one("Deployment")["metadata"]["namespace"]


def test_pods_of_jobs_accept_connections_from_their_own_namespace_only():
    spec = job_namespace_policy()["spec"]
    assert spec == {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": {}}]}]}
