#!/bin/sh
# Sees to a browser for the tests of pages (tests/browser). Root gets Debian's chromium, which takes half a minute, once.
# Anybody else is told what is missing, and those tests are skipped: a system's packages are for whoever runs it.
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
