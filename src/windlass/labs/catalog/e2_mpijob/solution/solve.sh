# Averages the gradients, begins with equal parameters, and uses all slots.
kubectl create configmap code --from-file="$WINDLASS_LAB_FILES/solution/train.py" --from-file=report.py
sed -i 's/-n, "2"/-n, "4"/' mpijob.yaml
kubectl apply -f mpijob.yaml
kubectl wait --for=condition=Succeeded mpijob/sum --timeout=110s
kubectl logs -l training.kubeflow.org/job-role=launcher
