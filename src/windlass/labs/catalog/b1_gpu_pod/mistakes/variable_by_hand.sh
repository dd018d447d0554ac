# refused: the pod sets
kubectl apply -f declared.yaml
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml
sed 's/    resources/    env: [{name: WORKSHOP_VISIBLE_DEVICES, value: "gpu-0,gpu-1"}]\n    resources/' \
  "$WINDLASS_LAB_FILES/solution/train.yaml" | kubectl apply -f -
kubectl wait pod train declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
