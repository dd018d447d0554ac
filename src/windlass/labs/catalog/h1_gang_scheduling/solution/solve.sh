# Brings about the deadlock, looks at it, removes it, and runs both jobs as gangs.
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl get pods
kubectl get events --field-selector reason=FailedScheduling
kubectl delete pods --all
cp "$WINDLASS_LAB_FILES/solution/pod.yaml" pod.yaml
sh launch.sh
sleep 1
windlass queue --on kubernetes
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pods --all --timeout=90s
kubectl get pods -o wide
