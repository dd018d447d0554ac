# refused: attaches no network
cp "$WINDLASS_LAB_FILES/solution/pasted.yaml" .
echo '  network: tcp,interface=net1' >> rails.yaml
