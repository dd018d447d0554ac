# refused: /tmp/broken
kubectl apply -f declared.yaml
kubectl create configmap plugin --from-file "$WINDLASS_LAB_FILES/solution/plugin.py"
kubectl apply -f plugin.yaml -f "$WINDLASS_LAB_FILES/solution/train.yaml"
kubectl wait pod train declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
