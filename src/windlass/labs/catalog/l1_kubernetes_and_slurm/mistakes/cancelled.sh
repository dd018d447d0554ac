# refused: no job was ended by Slurm at its limit
export SLURM_CONF="$PWD/slurm/slurm.conf"
sbatch --wait train.sbatch
sbatch --job-name=walltime --time=1 --wrap "sleep 600"
sleep 3
scancel --name=walltime
while [ -n "$(squeue --noheader)" ]; do sleep 1; done
