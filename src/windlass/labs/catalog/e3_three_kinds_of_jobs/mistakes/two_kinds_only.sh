# refused: kubectl apply -f trainjob.yaml
kubectl create configmap code --from-file="$WINDLASS_LAB_FILES/solution/whoami.py"
kubectl apply -f pytorchjob.yaml -f tfjob.yaml
kubectl wait --for=condition=Succeeded pytorchjob/pt tfjob/tf --timeout=90s
