# Selects the label as the node has it, tolerates the taint, and asks Windlass for a model that is there.
cp "$WINDLASS_LAB_FILES/solution/train.yaml" .
kubectl apply -f train.yaml
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
windlass submit --on kubernetes --name newest -G 1 --gpu-type NVIDIA-B200 --image windlass-examples:1 -- echo trained
until windlass why newest --on kubernetes > why.txt && grep "no node has the GPU" why.txt; do sleep 1; done
windlass cancel newest --on kubernetes
windlass submit --on kubernetes --name either -G 1 --gpu-type NVIDIA-B200,NVIDIA-H100-80GB-HBM3 \
  --image windlass-examples:1 -- echo trained
until kubectl get trainingjobs.windlass.dev | grep Succeeded; do sleep 1; done
