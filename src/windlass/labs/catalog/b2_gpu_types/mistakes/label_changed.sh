# refused: the labels of the nodes
kubectl label node n1 --overwrite nvidia.com/gpu.product=H100
kubectl apply -f train.yaml
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
