# refused: NCCL_NET=efa
sed '/NCCL_SOCKET_IFNAME/d' pasted.yaml > repaired.yaml
mv repaired.yaml pasted.yaml
