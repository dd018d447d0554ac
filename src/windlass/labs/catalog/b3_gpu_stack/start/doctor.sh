# sh doctor.sh node-a: judges a machine by its files, and its framework by the packages in its /opt/venv.
export PYTHONPATH="machines/$1/opt/venv/site-packages"
windlass doctor host --root "machines/$1"
