#!/bin/sh
# Starts this training program with the first LibTorch found: of MT_TORCH_DIR, installed with the program, of its Python
# environment, or of python3.
name=${0##*/}
here=$(dirname "$(readlink -f "$0")")  # <...>/libexec/mtrun/trainers
asked=$1

complain() {
  # One of several mtruns checks only the settings, which can be right. Its worker reports this later, to all nodes.
  [ "$asked" != --check_settings ] || exit 127
  echo "$name: $*" >&2
  exit 2
}

find_torch() {  # the folder that holds torch/
  if [ -n "$MT_TORCH_DIR" ]; then
    echo "$MT_TORCH_DIR"
    return
  fi
  for folder in "$here/../../../lib/mtrun" "$here/../../../.."; do
    if [ -e "$folder/torch/lib/libtorch_cpu.so" ]; then
      echo "$folder"
      return
    fi
  done
  python3 -c 'import importlib.util as u, os
spec = u.find_spec("torch")
print(os.path.dirname(spec.submodule_search_locations[0]) if spec else "")' 2>/dev/null
}

torch=$(find_torch)
if [ -z "$torch" ]; then
  complain "the training programs need PyTorch 2.11, and there is none: pip install 'torch==2.11.*', or MT_TORCH_DIR=<site-packages>"
fi
if [ ! -e "$torch/torch/lib/libtorch_cpu.so" ]; then
  complain "there is no torch/lib/libtorch_cpu.so in $torch${MT_TORCH_DIR:+ (MT_TORCH_DIR)}: PyTorch 2.11 is needed"
fi
if [ -e "$torch/torch/version.py" ]; then
  version=$(sed -n "s/^__version__ = ['\"]\([^'\"]*\)['\"].*/\1/p" "$torch/torch/version.py")
  case $version in
    2.11.*) ;;
    *) complain "the training programs need PyTorch 2.11, $torch has $version: pip install 'torch==2.11.*', or MT_TORCH_DIR=<site-packages>" ;;
  esac
fi

program=$here/../trainer
others=${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
libraries=$torch/torch/lib$others
# Uses the program with CUDA if all its libraries exist. The system's loader checks that quickly, without starting it.
if [ -x "$program-cuda" ]; then
  # The wheel's libraries come before those of LD_LIBRARY_PATH, which can be of another CUDA release.
  with_cuda=$torch/torch/lib
  for folder in "$torch"/nvidia/*/lib; do
    with_cuda=$with_cuda:$folder
  done
  with_cuda=$with_cuda$others
  case $(LD_LIBRARY_PATH=$with_cuda LD_TRACE_LOADED_OBJECTS=1 "$program-cuda" 2>&1) in
    *"not found"*) ;;
    *"libtorch_cuda.so => "*) program=$program-cuda libraries=$with_cuda ;;
  esac
fi
export LD_LIBRARY_PATH="$libraries"
exec "$program" "$name" "$@"
