#!/usr/bin/env bash
# safetensors 0.8.0 saves a NumPy array that is not in C order with its elements mixed up, without an error: an array made by
# .T or numpy.asfortranarray is written as it lies in memory, under its logical shape. 0.7.0 wrote the right values, and
# safetensors.torch refuses such a tensor. Such arrays come from a layer that is transposed for another framework and
# from scikit-learn's PCA; the file loads everywhere, and the network guesses.
#
# Seen: safetensors 0.7.0 and 0.8.0 with NumPy 2.4.6. Source: safetensors/numpy.py, _flatten, gives the address of the array
# to the writer and looks at no strides; the docstring asks for contiguous arrays. Issue 825 of safetensors names it.
# numpy.ascontiguousarray before saving helps.
#
# Connects to nothing but the package registry. Exits 0 as seen, 1 if it has changed, 77 if the packages cannot be had.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for version in 0.7.0 0.8.0; do
  python3 -m venv "$version" && "$version/bin/pip" install --quiet --disable-pip-version-check "safetensors==$version" \
    numpy==2.4.6 || { echo "skipped: safetensors $version cannot be installed here"; exit 77; }
done
cat >save.py <<'PYTHON'
import sys

import numpy
import safetensors
from safetensors.numpy import load_file, save_file

weights = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
same = []
for name, array in (("C order", weights), ("transposed", weights.T), ("Fortran order", numpy.asfortranarray(weights))):
    save_file({"weights": array}, "weights.safetensors")
    loaded = load_file("weights.safetensors")["weights"]
    same.append(bool((loaded == array).all()))
    print(f"safetensors {safetensors.__version__}, {name}: saved {array.tolist()}, loaded {loaded.tolist()}")
sys.exit(0 if same == ([True, True, True] if sys.argv[1] == "right" else [True, False, False]) else 1)
PYTHON
0.7.0/bin/python save.py right
0.8.0/bin/python save.py wrong
