# refused: give the job one pod of the role Master
kubectl create configmap code --from-file=whoami.py
python3 - <<'PYTHON'
import yaml

job = yaml.safe_load(open("pytorchjob.yaml"))
roles = job["spec"]["pytorchReplicaSpecs"]
del roles["Master"]
roles["Worker"]["replicas"] = 3
yaml.safe_dump(job, open("workers.yaml", "w"))
PYTHON
kubectl apply -f workers.yaml
sleep 4
