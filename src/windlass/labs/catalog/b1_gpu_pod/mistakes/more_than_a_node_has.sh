# refused: no node has 3
kubectl apply -f declared.yaml
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml
kubectl rollout status daemonset plugin --timeout 90s
sed 's/requests:/limits:/' train.yaml | kubectl apply -f -
kubectl wait pod declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
until kubectl describe pod train | grep FailedScheduling; do sleep 1; done
