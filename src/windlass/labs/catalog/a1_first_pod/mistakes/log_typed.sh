# refused: first.log is not the log of the pod
kubectl apply -f first.yaml
kubectl wait pod first --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
printf 'hello from first\nticket 459d34ea-4bb6-4c32-b216-7b807ee6d32f\n' > first.log
