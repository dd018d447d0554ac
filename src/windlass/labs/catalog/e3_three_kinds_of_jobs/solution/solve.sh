# Reads the place of a rank from the environment of each kind, and runs all three.
kubectl create configmap code --from-file="$WINDLASS_LAB_FILES/solution/whoami.py"
kubectl apply -f pytorchjob.yaml -f tfjob.yaml -f trainjob.yaml
kubectl wait --for=condition=Succeeded pytorchjob/pt tfjob/tf --timeout=90s
kubectl wait --for=condition=Complete trainjob/tr --timeout=90s
