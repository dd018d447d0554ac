# refused: give the container the variable DATA with a value
kubectl apply -f .
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
until kubectl get events | grep big | grep FailedScheduling; do sleep 1; done
until kubectl get events | grep broken | grep BackOff; do sleep 1; done
sed -i '/DATA:?/d' broken.yaml
kubectl replace --force --grace-period 1 -f "$WINDLASS_LAB_FILES/solution/big.yaml" -f broken.yaml
kubectl wait pod big broken --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
