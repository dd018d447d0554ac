"""Property: a job whose fields a batch script can say is the same after it is rendered and imported."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from windlass.core.model.job import Job, Launcher, Match, RestartPolicy, Role
from windlass.core.model.resources import CPU, GPU, MEMORY
from windlass.jobs.description.job_file import loads
from windlass.jobs.description.submission import Submission
from windlass.jobs.imports.job_text import job_text
from windlass.jobs.slurm.imported_job import import_script
from windlass.jobs.slurm.rendered_script import render_script
from windlass.jobs.syntax.text import Text

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)
WORDS = st.text(
    st.characters(codec="utf-8", exclude_characters="\n\r\0\x85\u2028\u2029\x0b\x0c", exclude_categories=("Cc", "Cs")),
    max_size=12,
)
SECOND = 1000


@st.composite
def roles(draw: st.DrawFn, launcher: Launcher) -> Role:
    procs, gpus = draw(st.integers(1, 8)), draw(st.integers(0, 8))
    tasks = procs if launcher is Launcher.PLAIN else 1
    least, nodes = sorted((draw(st.integers(1, 9)), draw(st.integers(1, 9))))
    program = ("torchrun", "train.py") if launcher is Launcher.TORCHRUN else ("python", "train.py")
    amounts = {
        GPU: gpus,
        CPU: 1000 * tasks * draw(st.integers(1, 16)),
        MEMORY: draw(st.integers(0, 512)) * 2**20,
    }
    return Role(
        replicas=nodes,
        procs=procs,
        resources={name: amount for name, amount in amounts.items() if amount},
        command=(*program, *draw(st.lists(WORDS, max_size=4))),
        env=draw(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{1,6}", fullmatch=True), WORDS, max_size=3)),
        whole_node=draw(st.booleans()),
        affinity=tuple(
            tuple(Match(key, "Exists") for key in keys)
            for keys in draw(st.lists(st.lists(NAMES, min_size=1, max_size=2), max_size=2))
        ),
        min_replicas=least if least < nodes else None,
        max_replicas=nodes if least < nodes else None,
    )


@st.composite
def submissions(draw: st.DrawFn) -> Submission:
    launcher = draw(st.sampled_from((Launcher.PLAIN, Launcher.TORCHRUN)))
    role = draw(roles(launcher))
    walltime = draw(st.none() | st.integers(60, 10**6).map(lambda seconds: seconds * SECOND))
    is_requeued = draw(st.booleans())
    job = Job(
        draw(NAMES),
        (role,),
        launcher=launcher,
        queue=draw(st.just("default") | NAMES),
        priority=draw(st.integers(-1000, 0)),
        walltime=walltime,
        grace=draw(st.sampled_from((10, 1, 60, 300))) * SECOND if walltime else 10 * SECOND,
        restart=RestartPolicy(
            user_limit=draw(st.integers(0, 3)) if is_requeued else 0, infrastructure_limit=16 if is_requeued else 0
        ),
        suspend=draw(st.booleans()),
        gpu_types=("h100",) if GPU in role.resources and draw(st.booleans()) else (),
        avoid=tuple(dict.fromkeys(draw(st.lists(NAMES, max_size=3)))),
        preemptible=is_requeued,
        workdir=f"/srv/{draw(NAMES)}",
        user="ada",
        labels={"slurm-account": "vision"} if draw(st.booleans()) else {},
    )
    array = tuple(sorted(draw(st.sets(st.integers(0, 99), max_size=5))))
    return Submission(job, array, draw(st.integers(0, 3)) if array else 0)


def assert_read_back(submission: Submission) -> None:
    """A job is rendered without loss, and its script is imported as the same job."""
    script = render_script(submission)
    imported = import_script(Text("job.sbatch", script.text))
    [read] = loads(job_text(imported, "job.sbatch"), user="ada")
    assert replace(read, source="") == submission, script.text
    assert script.losses == ()
    assert {loss.part for loss in imported.losses} <= {"--account"}


@given(submissions())
def test_rendered_jobs_are_imported_equally(submission):
    assert_read_back(submission)


@st.composite
def components(draw: st.DrawFn) -> Submission:
    """A job of two or three roles of fixed sizes, whose ranks are started by srun."""
    given_submission = draw(submissions())
    names = draw(st.lists(NAMES, min_size=2, max_size=3, unique=True))
    whole_node = draw(st.booleans())
    parts = [
        replace(
            draw(roles(Launcher.PLAIN)),
            name=name,
            min_replicas=None,
            max_replicas=None,
            whole_node=whole_node,
            affinity=(),
        )
        for name in names
    ]
    parts = [replace(each, command=tuple(word for word in each.command if word != ":")) for each in parts]
    job = replace(given_submission.job, roles=tuple(parts), launcher=Launcher.PLAIN, gpu_types=())
    return Submission(job)


@given(components())
def test_rendered_jobs_of_several_roles_are_imported_equally(submission):
    assert_read_back(submission)
