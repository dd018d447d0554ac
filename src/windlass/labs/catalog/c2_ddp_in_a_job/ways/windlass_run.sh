# `windlass run` starts the ranks in the pod, which has no memory limit.
sed -e 's/python3, .*train.py, "4"/windlass, run, --local-gpus, "4", -G, "4", --, python, \/code\/train.py/' -e 's/, limits: {memory: 4Gi}//' \
  "$WINDLASS_LAB_FILES/solution/job.yaml" > job.yaml
kubectl create configmap code --from-file train.py --from-file prepare.py
kubectl apply -f job.yaml
kubectl wait job train --for condition=Complete --timeout 400s
