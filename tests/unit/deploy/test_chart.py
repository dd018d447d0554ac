import base64
import gzip
import json
import re

import pytest
import yaml

from windlass.deploy.chart import chart_files, values
from windlass.deploy.crds import DEFAULT, POD_GROUPS, crds
from windlass.deploy.installation import IMAGE, permission_objects, policy_objects
from windlass.deploy.monitoring.prometheus_operator import monitoring_objects
from windlass.deploy.network_policies import operator_policies
from windlass.deploy.operator import Setup, operator_objects
from windlass.jobs.kubernetes.gang_dialects import Dialect
from windlass.jobs.kubernetes.operator_names import NAMESPACE


def rendered(**chosen):
    """The chart as Helm renders it. Templates contain only `{{ .A.b.c }}` and, on lines of their own, if and end."""
    known = {"Values": {**values(), **chosen}, "Release": {"Namespace": NAMESPACE}}
    objects = []
    for path, text in chart_files():
        if path.startswith("templates/"):
            objects += [each for each in yaml.load_all(fill(text, known), yaml.CSafeLoader) if each]
    return objects


def fill(text, known):
    condition = re.fullmatch(r"\{\{- if \.([\w.]+) \}\}\n(.*)\{\{- end \}\}\n", text, re.DOTALL)
    if condition:
        return fill(condition[2], known) if look_up(condition[1], known) else ""
    text = re.sub(
        r"\{\{ if \.([\w.]+) \}\}(.*?)\{\{ end \}\}", lambda found: found[2] if look_up(found[1], known) else "", text
    )
    text = re.sub(r"\{\{ \.([\w.]+) \}\}", lambda found: as_text(look_up(found[1], known)), text)
    return re.sub(r"\{\{`(.*?)`\}\}", r"\1", text)


def as_text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


def look_up(path, known):
    for part in path.split("."):
        known = known[part]
    return known


def without_helms_own(manifest):
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "annotations"}
    return {**manifest, "metadata": metadata}


def by_name(objects):
    return {(each["kind"], each["metadata"]["name"]): without_helms_own(each) for each in objects}


def test_the_chart_brings_the_objects_of_the_command_and_kustomize():
    setup = Setup(IMAGE)
    assert by_name(rendered()) == by_name(
        [
            *crds(),
            *permission_objects(setup),
            *policy_objects(setup),
            *operator_policies(setup),
            *operator_objects(setup),
        ]
    )


def test_chosen_values_are_in_the_objects():
    image = {"repository": "registry.example/windlass", "tag": "2", "digest": "", "pullPolicy": "Always"}
    objects = by_name(rendered(replicas=3, image=image))
    spec = objects["Deployment", "windlass-operator"]["spec"]
    container = spec["template"]["spec"]["containers"][0]
    assert (spec["replicas"], container["image"]) == (3, "registry.example/windlass:2")
    assert container["imagePullPolicy"] == "Always"


def test_rights_for_mpijobs_v1_are_a_choice():
    role = ("ClusterRole", "windlass-operator-mpijob-v1")
    assert role not in by_name(rendered())
    assert role in by_name(rendered(mpiJobV1=True))


@pytest.mark.parametrize("dialect", [Dialect.VOLCANO, Dialect.NATIVE])
def test_rights_for_pod_groups_of_other_schedulers_are_a_choice(dialect):
    role = ("ClusterRole", f"windlass-operator-podgroups-{dialect}")
    assert role not in by_name(rendered())
    objects = by_name(rendered(podGroupRights={"volcano": False, "native": False, str(dialect): True}))
    wanted = permission_objects(Setup(IMAGE, pod_groups=(dialect,)))
    assert objects[role] in wanted


def test_rules_for_other_schedulers_are_in_the_operators_arguments():
    objects = by_name(rendered(foreignSchedulers="volcano=respect,*=refuse"))
    container = objects["Deployment", "windlass-operator"]["spec"]["template"]["spec"]["containers"][0]
    assert "--foreign-schedulers=volcano=respect,*=refuse" in container["args"]


def test_chosen_namespaces_are_in_the_policy_and_in_the_operators_arguments():
    objects = by_name(rendered(managedNamespaces="labelled"))
    chosen = Setup(IMAGE, managed_namespaces="labelled")
    wanted = [*permission_objects(chosen), *policy_objects(chosen), *operator_policies(chosen)]
    assert objects == by_name([*crds(), *wanted, *operator_objects(chosen)])


def test_objects_for_the_prometheus_operator_are_a_choice():
    kinds = {"ServiceMonitor", "PrometheusRule"}
    assert not kinds & {each["kind"] for each in rendered()}
    chosen = [each for each in rendered(monitoring={"enabled": True}) if each["kind"] in kinds]
    assert by_name(chosen) == by_name(monitoring_objects(Setup(IMAGE)))


def test_an_image_is_named_by_its_digest():
    image = {"repository": "windlass", "tag": "2", "digest": "sha256:abc", "pullPolicy": "Always"}
    deployment = by_name(rendered(image=image))["Deployment", "windlass-operator"]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "windlass:2@sha256:abc"


def test_the_network_policy_can_be_left_out():
    kinds = {each["kind"] for each in rendered(networkPolicy={"enabled": False})}
    assert "NetworkPolicy" not in kinds


def test_existing_kinds_can_be_left_out():
    chosen = dict.fromkeys((*DEFAULT, POD_GROUPS), False)
    kinds = {each["kind"] for each in rendered(crds=chosen)}
    assert "CustomResourceDefinition" not in kinds
    assert "Deployment" in kinds


def test_definitions_outlive_the_release():
    definitions = [each for each in rendered() if each["kind"] == "CustomResourceDefinition"]
    assert all(each["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"} for each in definitions)


def test_no_definition_contains_text_that_helm_would_expand():
    assert all("{{" not in line or "if .Values" in line or "end" in line for line in definition_lines())


def definition_lines():
    paths = {f"templates/{group}.yaml" for group in (*DEFAULT, POD_GROUPS)}
    return [line for path, text in chart_files() if path in paths for line in text.splitlines()]


def test_a_release_fits_in_its_secret():
    """Helm keeps the chart and the rendered objects, compressed, in a Secret, which holds 1 MiB."""
    files = dict(chart_files())
    chart = [{"name": path, "data": base64.b64encode(text.encode()).decode()} for path, text in files.items()]
    release = json.dumps({"chart": {"templates": chart}, "manifest": "".join(files.values())})
    assert len(base64.b64encode(gzip.compress(release.encode()))) < 2**20
