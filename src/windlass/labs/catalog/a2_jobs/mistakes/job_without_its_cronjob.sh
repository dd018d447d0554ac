# refused: kubectl create job --from=cronjob/nightly
kubectl apply -f "$WINDLASS_LAB_FILES/solution/shards.yaml" -f "$WINDLASS_LAB_FILES/solution/hopeless.yaml" -f "$WINDLASS_LAB_FILES/solution/nightly.yaml"
kubectl create job tonight --image alpine:3.10 -- date
kubectl wait job shards tonight --for condition=Complete --timeout 90s
kubectl wait job hopeless --for condition=Failed --timeout 90s
