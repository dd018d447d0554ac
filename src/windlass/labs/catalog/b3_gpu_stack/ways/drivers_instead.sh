# node-a goes back to the libraries of the loaded module; node-c gets a newer driver, and uses CDI alone.
python on.py node-a apt-get install nvidia-driver=570.133.20
mkdir -p machines/node-b/etc/modprobe.d
printf 'blacklist nouveau\noptions nouveau modeset=0\n' > machines/node-b/etc/modprobe.d/gpu.conf
python on.py node-b update-initramfs -u
python on.py node-b reboot
python on.py node-c apt-get install -y nvidia-driver=580.82.07
python on.py node-c reboot
python on.py node-c nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
