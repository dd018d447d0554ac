# The pod requests no cores at all, and the program has a default instead of a variable.
kubectl apply -f .
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first --timestamps > first.log
until kubectl get events | grep big | grep FailedScheduling; do sleep 1; done
until kubectl get events | grep broken | grep BackOff; do sleep 1; done
sed -i '/resources:/,$d' big.yaml
sed -i 's,: "${DATA:.*,DATA="${DATA:-/data}",' broken.yaml
kubectl replace --force --grace-period 1 -f big.yaml -f broken.yaml
kubectl wait pod big broken --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
