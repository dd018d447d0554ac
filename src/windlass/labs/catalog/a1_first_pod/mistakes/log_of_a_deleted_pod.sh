# refused: first.log is not the log of the pod
kubectl apply -f first.yaml
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
kubectl replace --force -f first.yaml
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
