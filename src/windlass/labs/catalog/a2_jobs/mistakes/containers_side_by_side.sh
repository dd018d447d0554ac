# refused: containers of a pod start together
kubectl apply -f shards.yaml
kubectl wait job shards --for condition=Failed --timeout 90s
