#!/bin/sh
# Installs a PostgreSQL server for the tests of history (tests/kubernetes/operator): as root Debian's, once, without the
# database that it would start at each boot. Any other user gets a message and those tests are skipped.
set -eu
if command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's PostgreSQL, in which the tests keep history"
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /etc/postgresql-common/createcluster.d
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/none.conf
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends postgresql; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "No PostgreSQL, and it could not be installed: the tests of history in it will be skipped (apt-get install postgresql)"
