# refused: leave the program as it is
sed 's/exit 3/exit 1/' "$WINDLASS_LAB_FILES/solution/hopeless.yaml" > hopeless.yaml
kubectl apply -f "$WINDLASS_LAB_FILES/solution/shards.yaml" -f hopeless.yaml
kubectl wait job shards --for condition=Complete --timeout 90s
kubectl wait job hopeless --for condition=Failed --timeout 90s
