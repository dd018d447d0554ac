# The gangs are Indexed Jobs, whose size Windlass knows.
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl delete pods,services --all
kubectl apply -f "$WINDLASS_LAB_FILES/ways/jobs.yaml"
kubectl wait --for=condition=Complete job/red job/blue --timeout=90s
