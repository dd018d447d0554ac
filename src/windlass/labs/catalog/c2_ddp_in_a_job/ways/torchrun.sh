# torchrun starts the ranks, and the volumes have other names and sizes.
sed -e 's/python3, .*train.py, "4"/torchrun, --nproc-per-node, "4", \/code\/train.py/' -e 's/512Mi/1Gi/' -e 's/name: shm/name: memory/' \
  "$WINDLASS_LAB_FILES/solution/job.yaml" > job.yaml
kubectl create configmap code --from-file train.py --from-file prepare.py
kubectl apply -f job.yaml
kubectl wait job train --for condition=Complete --timeout 400s
