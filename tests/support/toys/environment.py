"""Prints its whole environment and its arguments as one line of JSON."""
import json
import os
import sys

# A line in one piece: `python -u` would write its parts one by one, and workers of torchrun share a pipe.
sys.stdout.reconfigure(line_buffering=True, write_through=False)

print("ENV " + json.dumps({"env": dict(os.environ), "argv": sys.argv[1:], "pid": os.getpid()}))
