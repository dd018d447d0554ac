# refused: selects no model
sed 's/nodeSelector:/nodeName: n2/; /product: H100/d' train.yaml | kubectl apply -f -
kubectl wait pod train --for jsonpath='{.status.phase}=Succeeded' --timeout 90s
