#!/bin/sh
# Starts the four ranks of the jobs red and blue, as if two people did so at the same moment.
for rank in 0 1 2 3; do
  for job in red blue; do
    echo "---"
    sed -e "s/JOB/$job/g" -e "s/NUMBER/$rank/g" pod.yaml
  done
done | kubectl create -f -
