#!/bin/sh
# Leaves out of the image what Airflow never loads, and compiles what it does.  $1: the venv.
set -eu
packages=$(echo "$1"/lib/python3.*/site-packages)
cd "$packages"
rm -rf pip pip-* setuptools setuptools-* wheel wheel-* pkg_resources
# Tests and sources of compiled extensions.
find . -type d \( -name tests -o -name test \) -prune -exec rm -rf {} +
find . -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.c' -o -name '*.h' -o -name '*.map' \) -delete
rm -rf airflow/example_dags airflow/providers/*/example_dags airflow/ui/node_modules
# The image is read-only where it runs: what is not compiled now is compiled at every start.
"$1/bin/python" -m compileall -q -j 0 "$packages" >/dev/null || true
