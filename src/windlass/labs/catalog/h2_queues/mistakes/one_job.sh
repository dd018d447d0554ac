# refused: submit a second job
cp "$WINDLASS_LAB_FILES/solution/sample-job.yaml" sample-job.yaml
kubectl apply -f kueue.yaml
kubectl create -f sample-job.yaml
kubectl wait --for=condition=Complete jobs --all --timeout=120s
