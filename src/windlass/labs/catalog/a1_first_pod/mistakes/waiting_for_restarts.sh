# refused: set the variable DATA in broken.yaml
kubectl apply -f .
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
until kubectl get events | grep big | grep FailedScheduling; do sleep 1; done
until kubectl get events | grep broken | grep BackOff; do sleep 1; done
kubectl replace --force --grace-period 1 -f "$WINDLASS_LAB_FILES/solution/big.yaml"
kubectl wait pod big --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
