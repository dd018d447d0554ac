# refused: driver.device_nodes
python on.py node-a apt-get install nvidia-driver=570.133.20
mkdir -p machines/node-b/etc/modprobe.d
echo "blacklist nouveau" > machines/node-b/etc/modprobe.d/blacklist-nouveau.conf
python on.py node-b update-initramfs -u
python on.py node-b reboot
python on.py node-c pip install torch==2.7.0+cu128
