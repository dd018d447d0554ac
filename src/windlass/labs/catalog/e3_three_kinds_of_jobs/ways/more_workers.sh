# Five ranks in a PyTorchJob, and other names.
kubectl create configmap code --from-file="$WINDLASS_LAB_FILES/solution/whoami.py"
sed -i -e 's/replicas: 2/replicas: 4/' -e 's/name: pt}/name: five}/' pytorchjob.yaml
kubectl apply -f pytorchjob.yaml -f tfjob.yaml -f trainjob.yaml
kubectl wait --for=condition=Succeeded pytorchjob/five tfjob/tf --timeout=90s
kubectl wait --for=condition=Complete trainjob/tr --timeout=90s
