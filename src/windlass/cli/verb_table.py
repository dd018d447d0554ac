"""Table of all verbs: the module in `windlass.cli.verbs` and the one-line help. Importing it imports no verb."""

from __future__ import annotations

from types import MappingProxyType

VERBS = MappingProxyType(
    {
        "run": ("run", "Run a job and follow it to its end"),
        "submit": ("submit", "Submit a job, an array or a file of jobs, and print the ids"),
        "agent": ("agent", "Start and supervise the ranks of one node, instead of torchrun"),
        "alloc": ("alloc", "Hold nodes while a shell or a command runs here"),
        "notebook": ("notebook", "Start JupyterLab in a member of a gang, and print its address"),
        "queue": ("listings", "List jobs that wait or run"),
        "status": ("status", "Details of a job; without a job, of the controller"),
        "top": ("top", "Live progress of running jobs; of one job, rank by rank"),
        "metrics": ("metrics", "Recorded loss, step times, memory of a job, also after its end"),
        "ui": ("ui", "Open the dashboard in a browser"),
        "why": ("why", "Why jobs wait: exact counts, and which jobs hold what they need"),
        "doctor": ("doctor", "Find out what is wrong, and print the fix"),
        "logs": ("logs", "Output of the ranks of a job, of any attempt"),
        "exec": ("exec", "Run a command in the environment of a rank"),
        "cancel": ("job_control", "Cancel jobs"),
        "suspend": ("job_control", "Stop jobs and keep them until they are resumed"),
        "resume": ("job_control", "Put suspended jobs back into the queue"),
        "nodes": ("listings", "List nodes, their capacity and the jobs on them"),
        "history": ("listings", "List jobs that have ended"),
        "share": ("share", "Fair shares: target and usage of every queue"),
        "reserve": ("reserve", "Reserve nodes for a queue, users or maintenance"),
        "snapshot": ("snapshots", "Write the state of the scheduler to a file"),
        "replay": ("snapshots", "Compute the plan for a snapshot, with reasons"),
        "explain": ("job_files", "Document a field of a job file"),
        "render": ("job_files", "Print a job with every default filled in"),
        "import": ("script_import", "Make a job file of a file of Slurm, SkyPilot or TorchX"),
        "sbatch": ("slurm_jobs", "Submit a batch script of Slurm"),
        "squeue": ("slurm_listings", "List jobs in the formats of Slurm"),
        "scancel": ("slurm_jobs", "Cancel jobs by id, user, name, queue or state"),
        "srun": ("slurm_run", "Run a command as the tasks of a job or an allocation"),
        "salloc": ("slurm_run", "Hold nodes with the options of Slurm"),
        "scontrol": ("scontrol", "Show and change jobs, show nodes and queues, as Slurm does"),
        "sinfo": ("slurm_listings", "List nodes by their states in the formats of Slurm"),
        "sacct": ("slurm_listings", "List jobs, ended ones too, in the formats of Slurm"),
        "lint": ("lint", "Check manifests, sbatch scripts and job files before they run"),
        "schema": ("job_files", "Print the JSON Schema of job files, for editors"),
        "simulate": ("simulate", "Replay a trace on a simulated cluster, and compare policies"),
        "scaling": ("scaling", "Measure a job on 1, 2, 4 ranks: speed-up, efficiency"),
        "network": ("network", "Measure the network between nodes"),
        "plan": ("plan", "Estimate memory, mesh, step time and cost of a training run"),
        "gpu": ("gpu", "Plan how workloads share GPUs: whole, MIG, MPS, time-slicing"),
        "checkpoint": ("checkpoint", "List, verify, prune and export checkpoints"),
        "operator": ("operator", "Install, check, run or uninstall the Kubernetes operator"),
        "up": ("daemon", "Start the daemon"),
        "down": ("daemon", "Stop the daemon"),
        "lab": ("lab", "The workshop: labs that check themselves, hints, quizzes, cards"),
        "completion": ("shell", "Print the completion script for bash, zsh or fish"),
        "version": ("shell", "Print the version"),
    },
)
"""Verb → (module of `windlass.cli.verbs`, help). A module has a function of the verb's name (`import_` for a
keyword), or a group of verbs."""
SLURM_VERBS = frozenset({"sbatch", "srun", "salloc", "squeue", "scancel", "scontrol", "sinfo", "sacct"})
"""Verbs that exit with 1 after any error, as the commands of Slurm do."""
