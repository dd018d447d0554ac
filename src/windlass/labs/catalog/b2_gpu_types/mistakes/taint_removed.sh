# refused: tolerations
kubectl taint node n2 nvidia.com/gpu-
sed 's/: H100/: NVIDIA-H100-80GB-HBM3/' train.yaml | kubectl apply -f -
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
