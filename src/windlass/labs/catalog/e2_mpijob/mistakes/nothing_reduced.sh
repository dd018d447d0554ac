# refused: each rank has trained a model of its own
kubectl create configmap code --from-file=train.py --from-file=report.py
sed -i 's/-n, "2"/-n, "4"/' mpijob.yaml
kubectl apply -f mpijob.yaml
kubectl wait --for=condition=Succeeded mpijob/sum --timeout=110s
