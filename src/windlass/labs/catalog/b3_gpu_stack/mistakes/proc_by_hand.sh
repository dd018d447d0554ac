# refused: the kernel alone writes /proc
sed 's/570.133.20/570.172.08/' machines/node-a/proc/driver/nvidia/version > version
mv version machines/node-a/proc/driver/nvidia/version
python on.py node-a nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
