# refused: TF_CONFIG
kubectl create configmap code --from-file=whoami.py
kubectl apply -f pytorchjob.yaml -f tfjob.yaml -f trainjob.yaml
kubectl wait --for=condition=Succeeded pytorchjob/pt --timeout=90s
kubectl wait --for=condition=Failed tfjob/tf --timeout=90s
