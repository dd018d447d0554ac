# node-a: the upgrade ends with a reboot, and the CDI specification follows the driver.
python on.py node-a reboot
python on.py node-a nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
sh doctor.sh node-a
# node-b: nouveau is blocked where the kernel starts from.
mkdir -p machines/node-b/etc/modprobe.d
echo "blacklist nouveau" > machines/node-b/etc/modprobe.d/blacklist-nouveau.conf
python on.py node-b update-initramfs -u
python on.py node-b reboot
sh doctor.sh node-b
# node-c: device files, the container runtime, and a torch that the driver can run.
python on.py node-c nvidia-modprobe -u -c 0
python on.py node-c nvidia-ctk runtime configure --runtime=containerd
python on.py node-c pip install torch==2.7.0+cu128
sh doctor.sh node-c
