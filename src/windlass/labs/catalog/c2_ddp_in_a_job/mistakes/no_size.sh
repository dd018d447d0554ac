# refused: state sizeLimit
sed 's/, sizeLimit: 512Mi//' "$WINDLASS_LAB_FILES/solution/job.yaml" | kubectl apply -f -
kubectl wait --for=create pod -l job-name=train --timeout 60s
