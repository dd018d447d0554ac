# Other names, two short jobs, and the manifest that Windlass makes of the command line.
export SLURM_CONF="$PWD/slurm/slurm.conf"
sed -i 's/name=train/name=mine/' train.sbatch
sbatch --job-name=sleeper --nodelist=n2 --time=1 --wrap "sleep 300"
sbatch --wait train.sbatch
sbatch --job-name=first --nodelist=n2 --time=10 --wrap "sleep 20"
sbatch --job-name=all --nodes=2 --exclusive --time=10 --wrap "sleep 1"
sbatch --job-name=a --time=1 --wrap true
sbatch --job-name=b --time=1 --wrap true
windlass submit --on kubernetes --image windlass-examples:1 --ship . -N 2 -G 1 --cpus 0.01 -- python3 train.py
sed -i 's/backoffLimit: 0/activeDeadlineSeconds: 3/' limited.yaml
kubectl create -f limited.yaml
kubectl wait --for=condition=Succeeded trainingjobs --all --timeout=90s
kubectl wait --for=condition=Failed job/limited --timeout=60s
while [ -n "$(squeue --noheader)" ]; do sleep 1; done
