"""Reading the same jobs again: the queue of the cluster is read only after a change."""

from windlass.backends.slurm.commands import error_of
from windlass.backends.slurm.job_records import SlurmJob
from windlass.cli.slurm_cluster.job_watch import JobWatch


class Slurm:
    """A Slurm with one job, a clock, and counts of what was read."""

    def __init__(self, *states):
        self.states, self.now, self.asked, self.reads = states, 0.0, [], []
        self.watch = JobWatch(self.run, self.read, lambda: self.now)

    def run(self, words, text="", variables=None, /):  # noqa: ARG002 - the signature of a runner
        self.asked.append(words[-1])
        if not self.states:
            raise error_of("squeue", "slurm_load_jobs error: Invalid job id specified")
        return f"12 {' '.join(self.states)}\n"

    def read(self, since):
        self.reads.append(since)
        return [SlurmJob(12, "digits", frozenset(self.states), array=7)], []

    def poll(self, *times):
        """Reads the job at these times; returns how often the whole queue was read."""
        before = len(self.reads)
        for self.now in times:
            self.watch.read()
        return len(self.reads) - before


def test_a_job_is_read_by_its_number_until_it_changes():
    slurm = Slurm("RUNNING")
    assert slurm.poll(0, 2) == 2
    assert slurm.poll(*range(4, 600, 2)) == 0
    assert set(slurm.asked) == {"--jobs=7"}
    slurm.states = ("COMPLETING",)
    assert slurm.poll(600, 602) == 1
    assert slurm.reads[-1] == 600


def test_the_queue_of_a_waiting_job_is_read_each_half_minute():
    slurm = Slurm("PENDING")
    slurm.poll(0, 2)
    assert slurm.poll(*range(4, 122, 2)) == 3


def test_a_job_that_the_controller_has_forgotten_is_looked_up_each_time():
    slurm = Slurm("RUNNING")
    slurm.poll(0, 2)
    slurm.states = ()
    assert slurm.poll(4, 6) == 2
