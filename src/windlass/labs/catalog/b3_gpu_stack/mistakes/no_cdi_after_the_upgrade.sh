# refused: container.cdi
python on.py node-a reboot
