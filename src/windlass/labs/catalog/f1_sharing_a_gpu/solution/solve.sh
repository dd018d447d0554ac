# Chooses a use for each workload, has the choice judged, and notes the cause against each other mode.
cp "$WINDLASS_LAB_FILES/solution/request.yaml" "$WINDLASS_LAB_FILES/solution/why.yaml" .
windlass gpu plan request.yaml
