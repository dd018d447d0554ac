# refused: killed at its memory limit
kubectl create configmap code --from-file train.py --from-file prepare.py
sed 's/4Gi/160Mi/; s/512Mi/100Mi/' "$WINDLASS_LAB_FILES/solution/job.yaml" | kubectl apply -f -
kubectl wait job train --for condition=Failed --timeout 200s
