# The gangs are TrainingJobs of the command line, which need no label.
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl delete pods --all
for job in red blue; do
  windlass submit --on kubernetes --image windlass-examples:1 --ship . --name "$job" -N 4 -G 1 --cpus 0.01 -- python3 rank.py
done
kubectl wait --for=condition=Succeeded trainingjobs --all --timeout=90s
