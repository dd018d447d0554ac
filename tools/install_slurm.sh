#!/bin/sh
# Installs Slurm for the tests of batch jobs (tests/slurm): as root Debian's, once, without the services that it would
# start. Any other user gets a message and those tests are skipped.
set -eu
missing() {
    command -v sbatch >/dev/null || return 0
    for program in slurmctld slurmd munged slurmdbd mariadbd; do
        [ -x "/usr/sbin/$program" ] || return 0
    done
    return 1
}
if ! missing; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's slurmctld, slurmd, slurm-client, munge, slurmdbd and mariadb-server, for jobs on a real Slurm"
    export DEBIAN_FRONTEND=noninteractive
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends \
        slurmctld slurmd slurm-client munge slurmdbd mariadb-server; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "Programs of Slurm are missing and could not be installed: the tests of batch jobs that need them will be skipped" \
    "(apt-get install slurmctld slurmd slurm-client munge slurmdbd mariadb-server)"
