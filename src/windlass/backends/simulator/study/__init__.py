"""A simulation study: traces, a cluster, policies and seeds, and all of its runs in parallel processes.

Belongs here: the description of a study, the trace of each seed, the distribution of runs over processes. Does not
belong here: a single replay, the metrics, command-line options, terminals.

    question = Question(...)
    experiment, runs = answer(question, "windlass simulate …", controlled, processes=4)
"""

from windlass.backends.simulator.study.answer import answer as answer
from windlass.backends.simulator.study.question import Question as Question
