#!/bin/sh
# Hand the certificates of SSL_CERT_FILE to the system, and by it to Java: behind a proxy with its own
# authority a base image often knows it in that file only.  Does nothing where the file is missing.
set -eu
bundle=${SSL_CERT_FILE:-}
[ -n "$bundle" ] && [ -f "$bundle" ] || exit 0
mkdir -p /usr/local/share/ca-certificates
awk '/BEGIN CERTIFICATE/ { n++ } n { print > ("/usr/local/share/ca-certificates/bundle-" n ".crt") }' "$bundle"
update-ca-certificates >/dev/null 2>&1
