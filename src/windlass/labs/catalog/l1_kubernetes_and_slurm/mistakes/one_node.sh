# refused: has one node
export SLURM_CONF="$PWD/slurm/slurm.conf"
sbatch --wait --nodes=1 train.sbatch
