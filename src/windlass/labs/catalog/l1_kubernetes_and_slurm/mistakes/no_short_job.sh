# refused: no job overtook
export SLURM_CONF="$PWD/slurm/slurm.conf"
sbatch --job-name=walltime --time=1 --nodelist=n1 --wrap "sleep 600"
sbatch --wait train.sbatch
sbatch --job-name=big --nodes=2 --exclusive --time=2 --wrap "sleep 1"
sbatch --job-name=long --time=60 --wrap "sleep 1"
while [ -n "$(squeue --noheader)" ]; do sleep 1; done
