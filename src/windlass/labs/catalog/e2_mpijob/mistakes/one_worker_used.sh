# refused: fills the slots of one worker first
cp "$WINDLASS_LAB_FILES/solution/train.py" train.py
kubectl create configmap code --from-file=train.py --from-file=report.py
kubectl apply -f mpijob.yaml
kubectl wait --for=condition=Succeeded mpijob/sum --timeout=110s
