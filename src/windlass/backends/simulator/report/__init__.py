"""What a simulation came to, as a page that needs nothing but itself, and as JSON.

Belongs here: the figures in words and tables, the series that are drawn, the page and its script. Does not belong
here: replaying, measuring (`backends.simulator.metrics`), the command line.

    report = build(experiment, runs)     # plain data: what report.json holds
    write(report, Path("out"))           # out/index.html, out/report.json

The same experiment and runs give the same bytes: nothing in it is of the clock or of the machine.
"""

from windlass.backends.simulator.report.build import build as build
from windlass.backends.simulator.report.experiment import Experiment as Experiment
from windlass.backends.simulator.report.experiment import Run as Run
from windlass.backends.simulator.report.figures import FIGURES as FIGURES
from windlass.backends.simulator.report.figures import Figure as Figure
from windlass.backends.simulator.report.figures import mean_and_sd as mean_and_sd
from windlass.backends.simulator.report.write import check_folder as check_folder
from windlass.backends.simulator.report.write import write as write
