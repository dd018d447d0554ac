# The same job under both, a job that outlives its limit under both, and a short job that overtakes a large one.
export SLURM_CONF="$PWD/slurm/slurm.conf"
sbatch --job-name=walltime --nodelist=n1 --time=1 --wrap "sleep 600"
sbatch --wait train.sbatch
sbatch --job-name=blocker --nodelist=n1 --time=5 --wrap "sleep 20"
sbatch --job-name=big --nodes=2 --exclusive --time=2 --wrap "sleep 1"
sbatch --job-name=short --nodes=1 --time=1 --wrap "sleep 1"
squeue
windlass submit --on kubernetes --image windlass-examples:1 --ship . --name train -N 2 -G 2 --procs 1 --cpus 0.01 --time 2m -- python3 train.py
cp "$WINDLASS_LAB_FILES/solution/limited.yaml" limited.yaml
kubectl apply -f limited.yaml
kubectl wait --for=condition=Succeeded trainingjobs --all --timeout=90s
kubectl wait --for=condition=Failed job/limited --timeout=60s
while [ -n "$(squeue --noheader)" ]; do sleep 1; done
sacct --completion
