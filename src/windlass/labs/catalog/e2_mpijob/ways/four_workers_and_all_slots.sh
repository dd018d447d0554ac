# Four workers with one slot each; without -n mpirun starts a rank in each slot. Reduces objects, not buffers.
sed -e 's/world.Bcast(parameters, root=0)/parameters = world.bcast(parameters, root=0)/' -e '/gradient \/= size/d' \
  -e 's/world.Allreduce(MPI.IN_PLACE, gradient, op=MPI.SUM)/gradient = world.allreduce(gradient) \/ size/' \
  "$WINDLASS_LAB_FILES/solution/train.py" > train.py
kubectl create configmap code --from-file=train.py --from-file=report.py
sed -i -e 's/-n, "2", //' -e 's/slotsPerWorker: 2/slotsPerWorker: 1/' -e 's/replicas: 2/replicas: 4/' mpijob.yaml
kubectl apply -f mpijob.yaml
kubectl wait --for=condition=Succeeded mpijob/sum --timeout=110s
