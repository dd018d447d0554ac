# refused: is that of the node
grep -v 'name: shm' "$WINDLASS_LAB_FILES/solution/job.yaml" | sed 's/^      restartPolicy: Never/      hostIPC: true\n&/' | kubectl apply -f -
kubectl wait --for=create pod -l job-name=train --timeout 60s
