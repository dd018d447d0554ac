# refused: has run 1 of them
kubectl create configmap code --from-file train.py --from-file prepare.py
sed 's/, "4"]/]/' "$WINDLASS_LAB_FILES/solution/job.yaml" | kubectl apply -f -
kubectl wait job train --for condition=Complete --timeout 400s
