# refused: windlass cancel
kubectl apply -f "$WINDLASS_LAB_FILES/solution/train.yaml"
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
windlass submit --on kubernetes --name newest -G 1 --gpu-type NVIDIA-B200 --image windlass-examples:1 -- echo trained
until windlass why newest --on kubernetes > why.txt && grep "no node has the GPU" why.txt; do sleep 1; done
