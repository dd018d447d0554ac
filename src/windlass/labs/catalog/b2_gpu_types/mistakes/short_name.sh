# refused: no node has the label nvidia.com/gpu.product=H100
kubectl apply -f train.yaml
