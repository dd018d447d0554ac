# refused: nothing makes a gang of them
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl delete pods --all
sed -i 's/^  hostname/  schedulerName: windlass\n&/' pod.yaml
sh launch.sh
sleep 4
kubectl get pods
