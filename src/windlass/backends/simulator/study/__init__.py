"""A simulation study: traces, a cluster, policies and seeds, and all of its runs in parallel processes.

Belongs here: the description of a study, the trace of each seed, the distribution of runs over processes. Does not
belong here: a single replay, the metrics, command-line options, terminals.

study = Study(...) experiment, runs = run_study(study, "windlass simulate …", controlled, processes=4)
"""

from windlass.backends.simulator.study.run import run_study as run_study
from windlass.backends.simulator.study.study import Study as Study
