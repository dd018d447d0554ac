#!/bin/sh
# Installs what real nodes need beside the programs that are built (tests/kubernetes): runc, network plugins, and for MPI
# jobs mpirun and sshd, which the pods mount from this machine. As root: Debian's packages, once, in a minute.
# Any other user gets a message and those tests are skipped, because system packages are the administrator's to install.
set -eu
missing() {
    for program in runc ip mpirun sshd; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "$program" >/dev/null || return 0
    done
    [ ! -e /usr/lib/cni/bridge ]
}
if [ "$(uname)" != Linux ] || ! missing; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's runc, containernetworking-plugins, openmpi-bin and openssh-server, for real nodes"
    export DEBIAN_FRONTEND=noninteractive
    # The packages would start an sshd on this machine. Only their files are needed.
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends \
        runc containernetworking-plugins iproute2 util-linux openmpi-bin openssh-server openssh-client; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "Programs for real nodes are missing, so the tests on real nodes will be skipped:" \
    "apt-get install runc containernetworking-plugins iproute2 openmpi-bin openssh-server openssh-client"
