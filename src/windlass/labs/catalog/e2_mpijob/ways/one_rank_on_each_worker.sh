# Two ranks, which mpirun places on a worker each.
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
kubectl create configmap code --from-file=train.py --from-file=report.py
sed -i 's/-n, "2"/-n, "2", --map-by, node/' mpijob.yaml
kubectl apply -f mpijob.yaml
kubectl wait --for=condition=Succeeded mpijob/sum --timeout=110s
