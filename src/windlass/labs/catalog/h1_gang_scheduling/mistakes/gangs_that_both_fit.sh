# refused: so that they never compete
kubectl create configmap rank --from-file=rank.py
kubectl apply -f services.yaml
sh launch.sh
sleep 4
kubectl delete pods --all
sed -e 's/gang-size: "4"/gang-size: "2"/' -e 's/value: "4"/value: "2"/' "$WINDLASS_LAB_FILES/solution/pod.yaml" > pod.yaml
sed -i 's/0 1 2 3/0 1/' launch.sh
sh launch.sh
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pods --all --timeout=90s
