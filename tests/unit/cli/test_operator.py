"""The verbs of the operator that need no cluster."""

import sys

import pytest
import yaml

from windlass.cli.errors import UsageError
from windlass.cli.verbs import operator, operator_run


def rendered(windlass, *words):
    ran = windlass("operator", "install", "--render", *words)
    assert (ran.code, ran.err) == (0, "")
    return list(yaml.load_all(ran.out, yaml.CSafeLoader))


def of_kind(objects, kind):
    return [each for each in objects if each["kind"] == kind]


def test_without_a_verb_it_lists_them(windlass):
    ran = windlass("operator")
    assert ran.code == 2
    assert all(f"  {verb} " in ran.err for verb in ("run", "install", "uninstall", "check"))


@pytest.mark.parametrize("verb", ["run", "install", "uninstall", "check"])
def test_every_verb_has_help(windlass, verb):
    ran = windlass("operator", verb, "-h")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: windlass operator {verb} [OPTIONS]")


def test_a_mistyped_verb_is_refused(windlass):
    ran = windlass("operator", "chekc")
    assert ran.code == 2
    assert "No such command 'chekc'" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("operator", "check"),
        ("operator", "install"),
        ("operator", "run"),
        ("run", "--on", "kubernetes", "--image", "i", "--", "true"),
    ],
)
def test_a_missing_kubeconfig_is_one_error_of_every_verb(windlass, monkeypatch, tmp_path, words):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "gone"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    ran = windlass(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        f"windlass: there is no kubeconfig: {tmp_path / 'gone'} does not exist; name one with KUBECONFIG=FILE\n"
    )


def test_kinds_that_are_left_to_others_must_be_kinds(windlass):
    assert operator_run._left_kinds(" MPIJob,PyTorchJob,") == {"MPIJob", "PyTorchJob"}
    ran = windlass("operator", "run", "--leave-kinds", "MPIJobs")
    assert (ran.code, ran.err.startswith("windlass: --leave-kinds does not know 'MPIJobs'; there are JAXJob")) == (
        2,
        True,
    )


@pytest.mark.parametrize("verb", ["run", "install"])
def test_rules_for_other_schedulers_must_name_an_action(windlass, verb):
    ran = windlass("operator", verb, "--foreign-schedulers", "volcano=respekt")
    said = "windlass: --foreign-schedulers does not know 'respekt'; did you mean 'respect'?"
    assert (ran.code, ran.err.splitlines()[0]) == (2, said)


def test_rules_for_other_schedulers_are_rendered_with_the_rights_that_they_need(windlass):
    def groups(*words):
        roles = of_kind(rendered(windlass, *words), "ClusterRole")
        return {each["metadata"]["name"] for each in roles if "-podgroups-" in each["metadata"]["name"]}

    assert groups() == set()
    assert groups("--foreign-schedulers", "plugins=respect,*=refuse") == set()
    assert groups("--foreign-schedulers", "volcano=respect") == {"windlass-operator-podgroups-volcano"}
    both = groups("--foreign-schedulers", "a=respect:volcano,b=respect:native")
    assert both == {"windlass-operator-podgroups-native", "windlass-operator-podgroups-volcano"}


def test_render_prints_the_objects_to_apply(windlass):
    objects = rendered(windlass, "--image", "registry.example/w:1", "-n", "team", "--replicas", "3")
    deployment = of_kind(objects, "Deployment")[0]
    assert deployment["metadata"]["namespace"] == "team"
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/w:1"


def test_kinds_of_other_projects_are_optional(windlass):
    groups = [
        {each["spec"]["group"] for each in of_kind(rendered(windlass, *words), "CustomResourceDefinition")}
        for words in ((), ("--without-crds",), ("--without-crds", "--pod-groups"))
    ]
    own = {"windlass.dev"}
    assert groups == [own | {"kubeflow.org", "trainer.kubeflow.org"}, own, own | {"scheduling.x-k8s.io"}]


def test_jobs_are_not_deleted_without_confirmation(monkeypatch):
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(UsageError, match="add --yes"):
        operator._confirm("from here", "3 TrainingJob", delete_jobs=True, yes=False)
    operator._confirm("from here", "3 TrainingJob", delete_jobs=False, yes=False)


def test_a_confirmation_names_the_deleted_objects(monkeypatch):
    asked = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text))
    operator._confirm("from here", "3 TrainingJob", delete_jobs=True, yes=False)
    operator._confirm("from here", "3 TrainingJob", delete_jobs=False, yes=False)
    operator._confirm("from here", "3 TrainingJob", delete_jobs=True, yes=True)
    assert asked == [
        "delete the operator and 3 TrainingJob from here?",
        "delete the operator (3 TrainingJob stay) from here?",
    ]


def test_a_missing_extra_is_named(windlass, monkeypatch):
    monkeypatch.setitem(sys.modules, "windlass.backends.kubernetes.client.connection", None)
    ran = windlass("operator", "check")
    assert ran.code == 2
    assert "pip install 'windlass-train[kubernetes]'" in ran.err
