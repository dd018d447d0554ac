# refused: Kueue does not know the job
kubectl apply -f kueue.yaml
sed -i 's/suspend: true/suspend: false/' sample-job.yaml
kubectl create -f sample-job.yaml
kubectl wait --for=condition=Complete jobs --all --timeout=120s
