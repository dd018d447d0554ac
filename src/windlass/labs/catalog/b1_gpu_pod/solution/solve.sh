# Completes the plugin, runs it on each node, runs the pod with two devices, and breaks a device afterwards.
kubectl apply -f declared.yaml
cp "$WINDLASS_LAB_FILES/solution/plugin.py" "$WINDLASS_LAB_FILES/solution/train.yaml" .
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml
kubectl rollout status daemonset plugin --timeout 90s
kubectl apply -f train.yaml
kubectl wait pod train declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl exec daemonset/plugin -- sh -c 'echo gpu-1 > /tmp/broken'
until kubectl get nodes -o jsonpath='{.items[*].status.allocatable.workshop\.windlass\.dev/gpu}' | grep 1; do sleep 1; done
