# One word for each job: the profile decides adapters, huge pages, capabilities, networks and variables.
windlass lint pasted.yaml || true
cp "$WINDLASS_LAB_FILES/solution/pasted.yaml" "$WINDLASS_LAB_FILES/solution/rails.yaml" .
windlass lint --strict pasted.yaml rails.yaml
windlass render --for kubernetes pasted.yaml
windlass render --for kubernetes rails.yaml
