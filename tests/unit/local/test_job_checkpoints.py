"""The checkpoint places of jobs, as read from their records."""

from dataclasses import replace

import pytest

from windlass import wire
from windlass.backends.local.checkpoints import CheckpointPlace, checkpoint_places
from windlass.backends.local.launch_message import spawn_message
from windlass.backends.local.launched_gang import new_gang
from windlass.backends.local.name_resolution import NameResolutionError
from windlass.backends.local.paths import StatePaths, prepare_folder, state_id
from windlass.backends.local.state_store import Notes, SubmissionOrigin, open_store
from windlass.backends.port import Changes
from windlass.core.lifecycle.transitions import create_state
from windlass.core.model.job import ArrayMember, Job, Role
from windlass.core.model.status import Phase, Placement

JOB = Job("digits", (Role(command=("train",)),), workdir="/w")


@pytest.fixture
def submit(tmp_path):
    """Records a job: variables of its first role, environment of its client, other fields of the job."""
    store = open_store(prepare_folder(tmp_path))

    def put(number=1, env=None, inherited=None, *, ended=False, **fields):
        job = replace(JOB, roles=(replace(JOB.roles[0], env=env or {}),), **fields)
        state = create_state(f"digits-{number}", number, job, now=0)
        if ended:
            state = replace(state, status=replace(state.status, phase=Phase.SUCCEEDED, finished_at=1))
        store.commit(Changes(states=(state,)), Notes(origins={state.id: SubmissionOrigin(inherited)}))

    yield put
    store.close()


@pytest.mark.parametrize(
    ("env", "inherited", "place"),
    [
        ({}, {"PATH": "/bin"}, "/w/checkpoints/ID/digits-1"),
        ({}, None, "/w/checkpoints/ID/digits-1"),
        ({}, {wire.CHECKPOINTS: "of-mine"}, "/w/of-mine"),
        ({wire.CHECKPOINTS: "/shared/run"}, {wire.CHECKPOINTS: "of-mine"}, "/shared/run"),
        ({wire.CHECKPOINTS: "s3://bucket/run"}, {}, "s3://bucket/run"),
    ],
)
def test_a_checkpoint_place_is_the_one_that_the_ranks_were_given(submit, tmp_path, env, inherited, place):
    submit(env=env, inherited=inherited)
    paths = StatePaths(tmp_path)
    expected = place.replace("ID", state_id(paths))
    assert (
        checkpoint_places(paths, "digits")
        == checkpoint_places(paths, "digits-1")
        == [CheckpointPlace("digits-1", expected)]
    )


def test_a_checkpoint_place_is_the_one_in_the_spawn_message(submit, tmp_path):
    submit()
    paths = StatePaths(tmp_path)
    gang = new_gang(("digits-1", 1), JOB, Placement({"worker": ("n1",)}))
    message = spawn_message(gang, nodes={}, logs=tmp_path, inherited={}, state_id=state_id(paths))
    assert checkpoint_places(paths, "digits")[0].place == f"{message['cwd']}/{message['env'][wire.CHECKPOINTS]}"


def test_a_name_refers_to_its_latest_ended_job(submit, tmp_path):
    submit(1, ended=True)
    submit(2, ended=True)
    assert [kept.job_id for kept in checkpoint_places(StatePaths(tmp_path), "digits")] == ["digits-2"]


def test_each_job_of_an_array_has_a_place(submit, tmp_path):
    for index in (0, 1):
        submit(f"7_{index}", array=ArrayMember("digits-7", index, 2))
    assert [kept.job_id for kept in checkpoint_places(StatePaths(tmp_path), "digits-7")] == ["digits-7_0", "digits-7_1"]


def test_an_unknown_job_is_an_error_with_the_nearest_names(submit, tmp_path):
    submit()
    with pytest.raises(NameResolutionError, match="did you mean digits"):
        checkpoint_places(StatePaths(tmp_path), "digitz")


def test_a_folder_without_records_knows_no_job(tmp_path):
    with pytest.raises(NameResolutionError, match="no job is called 'digits'; there is none on record in"):
        checkpoint_places(StatePaths(tmp_path / "nowhere"), "digits")
