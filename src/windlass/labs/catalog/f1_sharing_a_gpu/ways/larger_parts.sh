# Larger MIG instances, fewer replicas, and other true causes.
sed 's/2g.20gb/3g.40gb/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
sed 's/mps: isolation, time-slicing: isolation/mps: isolation, time-slicing: latency/' "$WINDLASS_LAB_FILES/solution/why.yaml" > why.yaml
windlass gpu plan request.yaml
