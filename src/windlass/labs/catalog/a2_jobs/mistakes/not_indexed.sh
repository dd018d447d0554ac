# refused: every pod trained shard 0
grep -v completionMode "$WINDLASS_LAB_FILES/solution/shards.yaml" | kubectl apply -f -
kubectl wait job shards --for condition=Complete --timeout 90s
