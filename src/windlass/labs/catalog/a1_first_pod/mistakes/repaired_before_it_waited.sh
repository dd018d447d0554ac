# refused: apply big.yaml as it is at the start
cp "$WINDLASS_LAB_FILES/solution/big.yaml" .
kubectl apply -f first.yaml -f big.yaml
kubectl wait pod first big --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
kubectl logs first > first.log
