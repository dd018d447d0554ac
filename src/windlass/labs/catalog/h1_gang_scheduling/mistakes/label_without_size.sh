# refused: windlass.dev/gang-size
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl delete pods --all
grep -v gang-size "$WINDLASS_LAB_FILES/solution/pod.yaml" > pod.yaml
sh launch.sh
sleep 5
windlass queue --on kubernetes
kubectl get pods
kubectl get events --field-selector involvedObject.name=red-0
