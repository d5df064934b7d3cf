"""Prints its whole environment and its arguments as one line of JSON."""
import json
import os
import sys

# Write whole lines: `python -u` would write the parts of a line separately, and workers of torchrun share a pipe.
sys.stdout.reconfigure(line_buffering=True, write_through=False)

print("ENV " + json.dumps({"env": dict(os.environ), "argv": sys.argv[1:], "pid": os.getpid()}))
