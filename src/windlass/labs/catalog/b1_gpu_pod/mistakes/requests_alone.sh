# refused: write the amount into limits
kubectl apply -f declared.yaml
kubectl wait pod declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml
kubectl rollout status daemonset plugin --timeout 90s
kubectl apply -f train.yaml || true
