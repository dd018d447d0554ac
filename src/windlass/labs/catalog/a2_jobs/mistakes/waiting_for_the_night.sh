# refused: do not wait for the night
kubectl apply -f "$WINDLASS_LAB_FILES/solution/shards.yaml" -f "$WINDLASS_LAB_FILES/solution/hopeless.yaml" -f "$WINDLASS_LAB_FILES/solution/nightly.yaml"
kubectl wait job shards --for condition=Complete --timeout 90s
kubectl wait job hopeless --for condition=Failed --timeout 90s
