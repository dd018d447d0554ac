# refused: Kueue does not know the job
kubectl apply -f kueue.yaml
kubectl create -f sample-job.yaml
