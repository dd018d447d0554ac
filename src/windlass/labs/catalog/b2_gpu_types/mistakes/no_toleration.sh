# refused: tolerations
sed 's/: H100/: NVIDIA-H100-80GB-HBM3/' train.yaml | kubectl apply -f -
