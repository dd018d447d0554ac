# Jobs end before the daemons: a slurmstepd carries no variables of the lab by which a reset finds it.
export SLURM_CONF="$PWD/slurm/slurm.conf"
timeout 10 scancel --state=PENDING --user="$(id -un)" || exit 0
timeout 10 scancel --user="$(id -un)"
for _ in $(seq 100); do test -z "$(timeout 10 squeue --noheader)" && break; sleep 0.1; done
