#!/usr/bin/env bash
# The package as its users get it: an sdist, the wheel built from it, an empty venv, an empty folder.
# The wheel runs; tests of the sdist pass from its unpacked folder.
set -euo pipefail
uv=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$uv" build --quiet --out-dir "$place" "$root"
"$uv" venv --quiet "$place/venv"
install() { "$uv" pip install --quiet --python "$place/venv/bin/python" --constraint "$root/requirements.lock" "$@"; }
install "$place"/omkl-*.whl
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
grep -q "pip install 'mlflow" refused.txt
refuse omkl-report ui
refuse python -c "import mlflow"
echo "The venv without MLflow has $(du -sm "$place/venv" | cut -f1) MB."
omkl-report show
omkl-data list
omkl-check ridge --only predict_and_learn_apart
echo "The wheel runs, reports, lists data sets and checks learners, without MLflow."
tar -xzf "$place"/omkl-*.tar.gz -C "$place"
cd "$place"/omkl-*/
install pytest pytest-xdist hypothesis pyte mpmath
python -m pytest -q -p no:cacheprovider tests/core/test_weights.py tests/datasets/test_cells.py tests/commands/test_readme.py
echo "Tests of the sdist pass."
