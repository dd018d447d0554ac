# refused: two GPUs are on the PCI bus
rm -r machines/node-a/sys/bus/pci/devices/*
