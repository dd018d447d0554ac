# Four notebooks on a GPU; MIG for notebooks costs more, or is too slow.
sed 's/time-slicing:7/time-slicing:4/' "$WINDLASS_LAB_FILES/solution/request.yaml" > request.yaml
sed 's/mig: slowdown/mig: cost/' "$WINDLASS_LAB_FILES/solution/why.yaml" > why.yaml
windlass gpu plan request.yaml
