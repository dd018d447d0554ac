# A cluster without huge pages: libfabric is told not to ask for them.
sed 's/network: efa/network: efa,hugepages=0/' "$WINDLASS_LAB_FILES/solution/pasted.yaml" > pasted.yaml
cp "$WINDLASS_LAB_FILES/solution/rails.yaml" .
