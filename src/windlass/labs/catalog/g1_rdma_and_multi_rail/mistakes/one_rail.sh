# refused: attaches rdma/rail0
cp "$WINDLASS_LAB_FILES/solution/pasted.yaml" .
echo '  network: roce-sriov,resource=nvidia.com/rail0,networks=rdma/rail0,interface=net1' >> rails.yaml
