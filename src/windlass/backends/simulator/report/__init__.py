"""The report of a simulation: a self-contained HTML page, and JSON.

Belongs here: figures as text and tables, chart series, the page and its script. Does not belong here: replaying,
measuring (`backends.simulator.metrics`), the command line.

    report = build(experiment, runs)     # plain data: what report.json holds
    write(report, Path("out"))           # out/index.html, out/report.json

The same experiment and runs give the same bytes: the report contains neither the time nor facts about the machine.
"""

from windlass.backends.simulator.report.build import build as build
from windlass.backends.simulator.report.experiment import Experiment as Experiment
from windlass.backends.simulator.report.experiment import PolicyRun as PolicyRun
from windlass.backends.simulator.report.figures import FIGURES as FIGURES
from windlass.backends.simulator.report.figures import Figure as Figure
from windlass.backends.simulator.report.figures import mean_and_sd as mean_and_sd
from windlass.backends.simulator.report.write import check_folder as check_folder
from windlass.backends.simulator.report.write import write as write
