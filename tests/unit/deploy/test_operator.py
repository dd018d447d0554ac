from typer.main import get_command

from windlass.cli.verbs.operator import operator
from windlass.deploy.installation import IMAGE, installation_objects
from windlass.deploy.operator import Setup


def one(kind, setup=None):
    return next(each for each in installation_objects(setup or Setup(IMAGE)) if each["kind"] == kind)


def test_its_pods_meet_the_restricted_standard():
    """Source: the pod security standards, level restricted."""
    spec = one("Deployment")["spec"]["template"]["spec"]
    container = spec["containers"][0]["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert not container["allowPrivilegeEscalation"]
    assert all(volume.keys() in ({"emptyDir", "name"}, {"secret", "name"}) for volume in spec["volumes"])
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()


def test_the_namespace_enforces_the_restricted_standard():
    assert one("Namespace")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_one_replica_may_be_drained_at_a_time():
    assert one("Deployment")["spec"]["replicas"] == 2
    assert one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_budget_service_and_spread_select_the_operators_pods():
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    spec = one("Deployment")["spec"]["template"]["spec"]
    selectors = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("Service")["spec"]["selector"],
        *(each["labelSelector"]["matchLabels"] for each in spec["topologySpreadConstraints"]),
    ]
    assert all(selector.items() <= labels for selector in selectors)


def test_all_objects_are_in_the_requested_namespace_but_one_binding():
    """Kubernetes has the role that reads the front proxy's authority in kube-system."""
    objects = installation_objects(Setup(IMAGE, namespace="team"))
    namespaces = {each["metadata"].get("namespace") for each in objects}
    assert namespaces == {None, "team", "kube-system"}
    [other] = [each for each in objects if each["metadata"].get("namespace") == "kube-system"]
    assert (other["kind"], other["roleRef"]["name"]) == ("RoleBinding", "extension-apiserver-authentication-reader")


def test_the_queries_api_reaches_the_leader():
    service = next(
        each
        for each in installation_objects(Setup(IMAGE, namespace="team"))
        if each["kind"] == "Service" and each["metadata"]["name"] == "windlass-operator-queries"
    )
    spec = one("APIService", Setup(IMAGE, namespace="team"))["spec"]
    assert spec["service"] == {"name": "windlass-operator-queries", "namespace": "team", "port": 8443}
    assert service["spec"]["ports"] == [
        {"name": "queries", "port": 8443, "targetPort": "queries"},
        {"name": "dashboard", "port": 8444, "targetPort": "dashboard"},
    ]
    assert service["spec"]["selector"]["windlass.dev/leader"] == "true"
    assert "insecureSkipTLSVerify" not in spec


def test_the_kinds_come_first():
    kinds = [each["kind"] for each in installation_objects(Setup(IMAGE))]
    assert kinds.index("Namespace") == kinds.count("CustomResourceDefinition")


def test_the_operators_arguments_are_options_of_the_verb():
    arguments = one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    verb = get_command(operator).commands[arguments[1]]
    options = {option for parameter in verb.params for option in parameter.opts}
    assert arguments[:2] == ["operator", "run"]
    assert {argument.partition("=")[0] for argument in arguments[2:]} <= options


def test_the_operators_lease_is_the_one_that_it_may_hold():
    arguments = one("Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    held = next(rule for rule in one("Role")["rules"] if "resourceNames" in rule)
    assert f"--lease={held['resourceNames'][0]}" in arguments


def test_variables_of_the_export_come_from_objects_that_need_not_exist():
    sources = one("Deployment")["spec"]["template"]["spec"]["containers"][0]["envFrom"]
    named = {kind: source for each in sources for kind, source in each.items()}
    optional = {"name": "windlass-operator-telemetry", "optional": True}
    assert named == {"configMapRef": optional, "secretRef": optional}


def test_the_secret_of_the_export_is_in_files_too_for_tokens_that_change():
    pod = one("Deployment")["spec"]["template"]["spec"]
    volumes = {each["name"]: each for each in pod["volumes"]}
    mounts = {each["name"]: each for each in pod["containers"][0]["volumeMounts"]}
    assert volumes["telemetry"]["secret"] == {"secretName": "windlass-operator-telemetry", "optional": True}
    assert mounts["telemetry"] == {"name": "telemetry", "mountPath": "/etc/windlass/telemetry", "readOnly": True}
