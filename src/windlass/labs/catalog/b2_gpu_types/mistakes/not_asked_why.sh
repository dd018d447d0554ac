# refused: why.txt
kubectl apply -f "$WINDLASS_LAB_FILES/solution/train.yaml"
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
echo "can never run: no node has the GPU NVIDIA-B200" > why.txt
windlass submit --on kubernetes -G 1 --gpu-type NVIDIA-B200 --image windlass-examples:1 -- echo trained
