# Applies the three objects as they should be, and starts the CronJob's job at once.
cp "$WINDLASS_LAB_FILES"/solution/*.yaml .
kubectl apply -f .
kubectl create job --from=cronjob/nightly tonight
kubectl wait job shards tonight --for condition=Complete --timeout 120s
kubectl wait job hopeless --for condition=Failed --timeout 120s
