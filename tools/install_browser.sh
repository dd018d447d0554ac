#!/bin/sh
# Installs a browser for the tests of pages (tests/browser): as root Debian's chromium, once, in half a minute.
# Any other user gets a message and those tests are skipped, because system packages are the administrator's to install.
set -eu
for program in chromium chromium-browser google-chrome; do
    if command -v "$program" >/dev/null; then
        exit 0
    fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing Debian's chromium, in which the tests open pages"
    export DEBIAN_FRONTEND=noninteractive
    if { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1; then
        exit 0
    fi
fi
echo "No chromium, and it could not be installed: the tests of pages will be skipped (apt-get install chromium)"
