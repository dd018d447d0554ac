# Six shards with two pods at once, a failure policy that ends the Job at exit code 3, and Replace.
cp "$WINDLASS_LAB_FILES"/solution/*.yaml .
sed -i 's/completions: 3/completions: 6/; s/parallelism: 3/parallelism: 2/; s/% 3/% 6/g' shards.yaml
sed -i 's/backoffLimit: 1/backoffLimit: 6\n  podFailurePolicy:\n    rules:\n    - {action: FailJob, onExitCodes: {operator: In, values: [3]}}/' hopeless.yaml
sed -i 's/Forbid/Replace/' nightly.yaml
kubectl apply -f .
kubectl create job --from=cronjob/nightly now
kubectl wait job shards now --for condition=Complete --timeout 120s
kubectl wait job hopeless --for condition=Failed --timeout 120s
