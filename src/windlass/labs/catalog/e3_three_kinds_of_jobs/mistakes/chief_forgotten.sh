# refused: two have the same number
sed 's/ + (0 if task\["type"\] == "chief" else len(roles\["chief"\]))//' "$WINDLASS_LAB_FILES/solution/whoami.py" > whoami.py
kubectl create configmap code --from-file=whoami.py
kubectl apply -f pytorchjob.yaml -f tfjob.yaml
kubectl wait --for=condition=Succeeded pytorchjob/pt --timeout=90s
sleep 5
