# refused: lower backoffLimit
kubectl apply -f "$WINDLASS_LAB_FILES/solution/shards.yaml" -f hopeless.yaml
kubectl wait job shards --for condition=Complete --timeout 90s
until kubectl get pods | grep hopeless | grep Error; do sleep 1; done
