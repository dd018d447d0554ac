"""Checks of one machine, from the PCI bus to the framework. Readers collect facts; checks are pure."""
