# refused: on the disk of the node
sed 's/medium: Memory, //' "$WINDLASS_LAB_FILES/solution/job.yaml" | kubectl apply -f -
kubectl wait --for=create pod -l job-name=train --timeout 60s
