# Three devices a node, requests equal to limits, and both devices of one node broken.
kubectl apply -f declared.yaml
cp "$WINDLASS_LAB_FILES/solution/plugin.py" .
sed -i 's/value: "2"/value: "3"/' plugin.yaml
sed -i 's/      requests:/      limits: {workshop.windlass.dev\/gpu: 3}\n      requests:/' train.yaml
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml -f train.yaml
kubectl wait pod train declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl exec daemonset/plugin -- sh -c 'echo gpu-0 gpu-2 > /tmp/broken'
until kubectl get nodes -o jsonpath='{.items[*].status.allocatable.workshop\.windlass\.dev/gpu}' | grep 1; do sleep 1; done
