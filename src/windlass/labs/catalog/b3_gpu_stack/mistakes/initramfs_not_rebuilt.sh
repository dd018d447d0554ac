# refused: pci.bound_driver
python on.py node-a apt-get install nvidia-driver=570.133.20
mkdir -p machines/node-b/etc/modprobe.d
echo "blacklist nouveau" > machines/node-b/etc/modprobe.d/blacklist-nouveau.conf
python on.py node-b reboot
