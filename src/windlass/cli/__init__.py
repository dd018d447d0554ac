"""The command line `windlass`: parses options, calls a daemon or a cluster, and prints the answers.

Belongs here: reading arguments, calling the API or reading the records in a state folder, and printing the result.
Does not belong here: decisions, and anything that a program other than a terminal also needs (that is in `server`).

- `entry` looks up the verb in `verb_table` and imports only the module of that verb; `windlass --help` and shell
  completion import none. rich is imported only when a table is written to a terminal.
- `verbs`: a module per family of verbs; `options`, `option_values`, `target`, `completion`: options that verbs share
- `job_submission`, `job_follower`, `job_messages`, `log_tail`, `rank_placement`: submitting a job and following it
- `kubernetes`: the same calls against a Kubernetes cluster; `speedup`: what `windlass scaling` measures
- `terminal`: tables, formatting, progress bars, signals; `errors`, `exit_codes`: how an error ends a verb
- `package_clash`: detects PyPI's unrelated package `windlass` in the same environment
"""


def main() -> int:
    """The console script. The script of PyPI's package `windlass` calls this name too, and so learns of the clash."""
    from windlass.cli.entry import main as run  # noqa: PLC0415 - importing a module of this package loads no verb

    return run()
