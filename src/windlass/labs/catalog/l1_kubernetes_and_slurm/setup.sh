# A Slurm of two nodes in this folder; its daemons end with the lab.
test -d slurm || python -m windlass.labs.lab_slurm slurm
