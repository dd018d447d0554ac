#!/bin/sh
# Installs Prometheus for the tests of alert rules and boards (tests/processes/prometheus): as root Debian's, once, without
# the service that it would start. Any other user gets a message and those tests are skipped.
set -eu
if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's prometheus, in which the tests try alert rules and boards"
    export DEBIAN_FRONTEND=noninteractive
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod +x /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends prometheus; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "No Prometheus, and it could not be installed: the tests of alerts and boards will be skipped (apt-get install prometheus)"
