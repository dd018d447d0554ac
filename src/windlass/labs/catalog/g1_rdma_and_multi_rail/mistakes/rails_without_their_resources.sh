# refused: one device of nvidia.com/rail0
cp "$WINDLASS_LAB_FILES/solution/pasted.yaml" .
echo '  network: roce-sriov,networks=rdma/rail0+rdma/rail1,interface=net1' >> rails.yaml
