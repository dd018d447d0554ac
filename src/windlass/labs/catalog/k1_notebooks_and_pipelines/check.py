"""Check of K1: the outputs of cells and of steps, compared with the records and logs of their jobs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from windlass.labs.evidence.findings import EvidenceError, Finding
from windlass.labs.evidence.job_records import LabJob
from windlass.labs.evidence.lab import Lab

CELL_PROGRAM = "windlass.client.rank_call"
REPORTS = "runs/**/executor_output.json"


class _Output(msgspec.Struct):
    text: str | list[str] = ""


class _Cell(msgspec.Struct):
    source: str | list[str] = ""
    outputs: list[_Output] = []


class _Notebook(msgspec.Struct):
    cells: list[_Cell]


class _Parameters(msgspec.Struct):
    job_id: str = ""


class _Report(msgspec.Struct):
    parameterValues: _Parameters = msgspec.field(default_factory=_Parameters)  # noqa: N815 - the name of kfp


def check(lab: Lab) -> Iterator[Finding]:
    """Looks at the cell on two ranks, then at the step."""
    jobs = {job.id: job for job in lab.jobs() if job.succeeded}
    # 1. the notebook
    printed = [text for name in lab.files("*.ipynb") for text in _magic_outputs(lab, name)]
    cells = [job for job in jobs.values() if CELL_PROGRAM in job.command and job.ranks > 1]
    yield Finding(
        any(_is_output_of(lab, job, text) for job in cells for text in printed),
        "a cell of a notebook ran on two ranks, and the saved notebook has what they printed",
        "a cell ran on two ranks, and no notebook has what they printed: save it, or run jupyter execute --inplace"
        if cells
        else "no cell of a notebook ran on two ranks: begin it with %%windlass -N 2 --cpus 0, run and save it",
    )
    # 2. the pipeline
    reported = [jobs[report] for report in _reported_jobs(lab) if report in jobs]
    yield Finding(
        bool(reported),
        "a step of a pipeline has reported a job that succeeded",
        "no step of a pipeline has reported its job: run pipeline.py with the Python that has kfp",
    )
    yield Finding(
        any(job.ranks > 1 for job in reported),
        "the step was a gang",
        "a step of one rank is no gang: give its job more nodes in pipeline.py, and run the pipeline again",
    )


def _magic_outputs(lab: Lab, name: str) -> Iterator[str]:
    """Yields the output of each cell of a notebook that begins with the magic."""
    try:
        notebook = msgspec.convert(lab.json(name), _Notebook)
    except msgspec.ValidationError:
        raise EvidenceError(f"{name} is no notebook", "windlass lab start k1 --fresh restores it") from None
    for cell in notebook.cells:
        if "".join(cell.source).lstrip().startswith("%%windlass"):
            yield "".join("".join(output.text) for output in cell.outputs)


def _is_output_of(lab: Lab, job: LabJob, text: str) -> bool:
    """Whether a line of each rank is in the output of a cell; the log has a line with the value of the cell too."""
    return all(any(line.strip() and line in text for line in lab.logs(job.id, rank)) for rank in range(job.ranks))


def _reported_jobs(lab: Lab) -> Iterator[str]:
    for name in lab.files(REPORTS):
        try:
            yield msgspec.convert(lab.json(name), _Report).parameterValues.job_id
        except msgspec.ValidationError:
            continue
