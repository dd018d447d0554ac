# Builds the three machines.
python on.py --build
