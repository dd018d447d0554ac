# refused: an init container
kubectl create configmap code --from-file train.py --from-file prepare.py
kubectl apply -f job.yaml
kubectl wait job train --for condition=Failed --timeout 200s
