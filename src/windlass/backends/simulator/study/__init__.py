"""One question put to the simulator: traces, a cluster, some policies, some seeds; and all its runs side by side.

Belongs here: what a question may say, the trace of each seed, and carrying the runs out over processes. Does not
belong here: a single replay, what is measured, options and terminals.

    question = Question(...)
    experiment, runs = answer(question, "windlass simulate …", controlled, processes=4)
"""

from windlass.backends.simulator.study.answer import answer as answer
from windlass.backends.simulator.study.question import Question as Question
