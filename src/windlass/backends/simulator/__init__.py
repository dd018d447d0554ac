"""The simulator backend: replays traces in virtual time under any policy, with faults if wanted.

Belongs here: reading and synthesizing traces, and the two engines that run them. Does not belong here: decisions (the
core makes all of them), the command line, pages and plots.

    trace = read_trace("philly.csv.gz")                 # TraceError names file, row and fix
    cluster = read_nodes("cluster.yaml")                # or cluster_of(96, gpus=8)
    outcome = replay(trace, cluster, Policy(order="fifo"))
    metrics = measure(outcome)

- `traces.read.read_trace(path, format=None, *, skip_bad=False) -> Trace`
- `clusters.read_nodes(path) -> Cluster`, `clusters.cluster_of(nodes, gpus=8) -> Cluster`
- `replay.replay(trace, cluster, policy, *, costs=None, kill=False, skip_bad=False, on_progress=…) -> Outcome`:
  every run of every job as arrays; `on_progress(done, all)`
- `metrics.measure(outcome) -> Metrics`
- `walltimes.with_walltimes(trace, kind, seed) -> Trace`: kind is "trace", "none", "exact" or "users" (noisy)
- `synthetic.synthesize(distribution, jobs, seed) -> Trace`, `Distribution.at_load(gpus, load)`,
  `distribution_fit.fit_distribution(trace) -> Distribution`
- `simulate.simulate(trace, cluster, policy, controlled, *, costs, delays, faults) -> Outcome`: through the real
  controller, with faults (`faults.draw_faults`, `faults.read_faults`). Backends do not import the controller, so the
  caller passes it: `controlled = lambda backend: run(Controller(backend.recover(), backend.finished), backend, …)`
"""

from windlass.backends.simulator.clusters import cluster_of as cluster_of
from windlass.backends.simulator.clusters import read_nodes as read_nodes
from windlass.backends.simulator.distribution_fit import fit_distribution as fit_distribution
from windlass.backends.simulator.errors import SimulationError as SimulationError
from windlass.backends.simulator.errors import TraceError as TraceError
from windlass.backends.simulator.faults import draw_faults as draw_faults
from windlass.backends.simulator.faults import read_faults as read_faults
from windlass.backends.simulator.metrics import Metrics as Metrics
from windlass.backends.simulator.metrics import measure as measure
from windlass.backends.simulator.outcome import Outcome as Outcome
from windlass.backends.simulator.progress import Costs as Costs
from windlass.backends.simulator.replay import replay as replay
from windlass.backends.simulator.simulate import simulate as simulate
from windlass.backends.simulator.synthetic import Distribution as Distribution
from windlass.backends.simulator.synthetic import SizeClass as SizeClass
from windlass.backends.simulator.synthetic import synthesize as synthesize
from windlass.backends.simulator.traces.job import Trace as Trace
from windlass.backends.simulator.traces.job import TraceJob as TraceJob
from windlass.backends.simulator.traces.read import read_trace as read_trace
from windlass.backends.simulator.walltimes import with_walltimes as with_walltimes
