#!/usr/bin/env bash
# The package as whoever installs it has it: a wheel in an empty venv, used from an empty folder.
set -euo pipefail
uv=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$uv" build --quiet --wheel --out-dir "$place" "$root"
"$uv" venv --quiet "$place/venv"
"$uv" pip install --quiet --python "$place/venv/bin/python" --constraint "$root/requirements.lock" "$place"/omkl-*.whl
mkdir "$place/empty"
cd "$place/empty"
export PATH="$place/venv/bin:$PATH"
unset PYTHONPATH
omkl-run dataset.rows=100 seeds=1 D=5 | tee first.txt
grep -q "MLflow is not installed" first.txt
omkl-run dataset=airfoil algorithm=auto seeds=1 interval=0.9 | tee second.txt
refuse() { if "$@" > refused.txt 2>&1; then echo "it did not fail: $*"; exit 1; fi; }
refuse grep -q MLflow second.txt
refuse omkl-run dataset.rows=50 seeds=1 D=5 tracking=mlflow
grep -q "'omkl\[mlflow\] @ file:" refused.txt
refuse omkl-report ui
refuse python -c "import mlflow"
echo "The venv without MLflow has $(du -sm "$place/venv" | cut -f1) MB."
omkl-report show
omkl-data list
omkl-check ridge --only predict_and_learn_apart
echo "The wheel runs, reports, lists data sets and checks learners, without MLflow."
