# The adapters and huge pages written into the template, without a profile; the rails in the other order, without an interface.
sed -e '/- {name: NCCL_/d' -e '/- {name: FI_/d' -e '/^ *env:$/d' \
  -e 's,vpc.amazonaws.com/efa: 1},vpc.amazonaws.com/efa: 32\, hugepages-2Mi: 5120Mi},' pasted.yaml > repaired.yaml
mv repaired.yaml pasted.yaml
echo '  network: roce-sriov,resource=nvidia.com/rail1+nvidia.com/rail0,networks=rdma/rail1+rdma/rail0' >> rails.yaml
