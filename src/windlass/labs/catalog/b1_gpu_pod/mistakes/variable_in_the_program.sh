# refused: leave that to the plugin
kubectl apply -f declared.yaml
kubectl create configmap plugin --from-file plugin.py
kubectl apply -f plugin.yaml
sed "s/'echo/'WORKSHOP_VISIBLE_DEVICES=gpu-0,gpu-1; echo/" "$WINDLASS_LAB_FILES/solution/train.yaml" | kubectl apply -f -
kubectl wait pod train declared --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
