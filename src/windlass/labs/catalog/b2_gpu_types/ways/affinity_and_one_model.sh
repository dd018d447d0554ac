# The pod selects by node affinity and tolerates every taint; the job asks for the A100, and the waiting one stays in the records of all.
cat > pod.yaml <<'YAML'
apiVersion: v1
kind: Pod
metadata: {name: evaluation}
spec:
  restartPolicy: Never
  tolerations: [{operator: Exists}]
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
        - matchExpressions:
          - {key: nvidia.com/gpu.product, operator: In, values: [NVIDIA-H100-80GB-HBM3, NVIDIA-H100-PCIe]}
  containers:
  - name: main
    image: alpine:3.10
    command: [echo, trained]
    resources: {limits: {nvidia.com/gpu: 2}}
YAML
kubectl apply -f pod.yaml
kubectl wait pod evaluation --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
windlass submit --on kubernetes -N 2 -G 1 --gpu-type NVIDIA-GB300 --image windlass-examples:1 -- sleep 1
until windlass why --on kubernetes | tee why.txt | grep GB300; do sleep 1; done
windlass cancel sleep --on kubernetes
windlass submit --on kubernetes -G 1 --gpu-type NVIDIA-A100-SXM4-80GB --image windlass-examples:1 -- sleep 1
until kubectl get trainingjobs.windlass.dev | grep Succeeded; do sleep 1; done
