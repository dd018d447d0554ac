# refused: samples that no pod trained: 3 6 9 12
sed 's/completions: 3/completions: 2/' "$WINDLASS_LAB_FILES/solution/shards.yaml" | kubectl apply -f -
kubectl wait job shards --for condition=Complete --timeout 90s
