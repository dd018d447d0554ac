# refused: 64 MiB that a container runtime gives
grep -v 'name: shm' "$WINDLASS_LAB_FILES/solution/job.yaml" > job.yaml
kubectl create configmap code --from-file train.py --from-file prepare.py
kubectl apply -f job.yaml
kubectl wait job train --for condition=Failed --timeout 400s
kubectl logs job/train | grep 'unable to allocate shared memory'
