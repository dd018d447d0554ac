# refused: the pod big is Pending: delete the pod, request less CPU
kubectl apply -f first.yaml -f big.yaml
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
until kubectl get events | grep big | grep FailedScheduling; do sleep 1; done
kubectl apply -f "$WINDLASS_LAB_FILES/solution/big.yaml" || true
