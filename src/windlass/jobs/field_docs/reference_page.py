"""The reference of job and cluster files as Markdown, written from the tables of fields."""

from __future__ import annotations

from windlass.jobs.cluster.cluster_file import CLUSTER
from windlass.jobs.description.fields import JOB, walk
from windlass.jobs.field_docs.field_help import type_of
from windlass.jobs.syntax.field import Field, Table

_JOB_INTRO = """\
# Job files

For users who write job files: every field, its option on the command line, its values and its default. One job in each
document, several documents in a file (`---` between them), YAML 1.2, at most 1 MiB. `windlass explain FIELD` prints the
same, `windlass schema` gives it to editors, `windlass render` prints a job with every default filled in. Options on the
command line win over the file.

<!-- `python -m windlass.jobs.field_docs.reference_page` writes it from src/windlass/jobs/description/fields.py. -->

"""

_VALUES = """\
## How values are written

| kind | written as | note |
|---|---|---|
| duration | `90s`, `10m`, `1h30m`, `2d`, `500ms`, or as Slurm's `--time`: `MM:SS`, `HH:MM:SS`, `D-HH`, `D-HH:MM`, \
`D-HH:MM:SS` | a plain number is refused: it would be minutes to Slurm and seconds to Kubernetes |
| cores | `2`, `1.5`, `500m` | rounded up to a thousandth of a core |
| memory | `16Gi`, `512Mi`, `16G` | a number without a unit is bytes, and refused below 1 MiB |
| indexes | `0-15`, `0-15%4`, `1,3,5-9:2` | `%4`: four at a time; `:2`: every second one; at most 10,000 |
| command | a list of words, or a line | a line that needs a shell is run by `sh -ec` |
| text in `env`, `selector`, `labels` | anything | numbers and booleans are taken as they stand: `010` stays `010` |
| booleans | `true`, `false` | `yes`, `no`, `on`, `off` are words |

Anchors, aliases and `<<` work within a document.
"""

_CLUSTER_INTRO = """\
## Cluster files

Nodes, queues and the scheduling policy in one document.

"""


def reference() -> str:
    """The page docs/reference/job-file.md."""
    return f"{_JOB_INTRO}{_table(JOB)}\n{_VALUES}\n{_CLUSTER_INTRO}{_table(CLUSTER)}"


def _table(table: Table) -> str:
    rows = [_row(path, field) for path, field in _named(table)]
    head = "| field | option | takes | default | meaning |\n|---|---|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _named(table: Table) -> list[tuple[str, Field]]:
    """Every field but those of a role that the job has as well."""
    shared = {field.name for field in table}
    return [
        (path.replace("roles.", "roles.NAME."), field)
        for path, field in walk(table)
        if not (path.startswith("roles.") and path.split(".")[1] in shared)
    ]


def _row(path: str, field: Field) -> str:
    flags = " ".join(f"`{flag}`" for flag in field.flags)
    example = f" `{field.name}: {field.example}`" if field.example else ""
    default = field.default or "required"
    return f"| `{path}` | {flags} | {type_of(field)} | {default} | {field.help}{example} |"


if __name__ == "__main__":
    print(reference(), end="")  # noqa: T201 - the page goes to standard output
