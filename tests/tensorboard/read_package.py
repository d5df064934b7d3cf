#!/usr/bin/env python3
"""read_package.py HOW FOLDER TAG: reads event files with PyPI's tensorboard and prints JSON: {"points": [[step, value], ...]}
of that scalar, and texts and images if HOW is accumulator. HOW: accumulator (its library), slow or fast (the program with
either loader)."""
import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request


def accumulated(folder, tag):
    from tensorboard.backend.event_processing import event_accumulator
    events = event_accumulator.EventAccumulator(folder, size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    events.Reload()
    texts = [[e.step, e.tensor_proto.string_val[0].decode()] for e in events.Tensors("settings")] \
        if "settings" in events.Tags()["tensors"] else []
    images = [[e.step, e.height, e.width, e.encoded_image_string.decode(errors="replace")] for e in events.Images("preview")] \
        if "preview" in events.Tags()["images"] else []
    return {"points": [[e.step, e.value] for e in events.Scalars(tag)], "texts": texts, "images": images}


def served(folder, tag, fast):
    server = subprocess.Popen([sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--port", "0", "--host",
                               "127.0.0.1", "--load_fast", "true" if fast else "false"],
                              stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            if found:
                break
        else:
            sys.exit("tensorboard did not start")
        url = f"http://127.0.0.1:{found.group(1)}/data/plugin/scalars/scalars?run=.&tag={urllib.parse.quote(tag, safe='')}"
        for _ in range(200):  # it does not report when it has read the files
            try:
                with urllib.request.urlopen(url) as answer:
                    return {"points": [[step, value] for _, step, value in json.load(answer)]}
            except urllib.error.HTTPError:
                time.sleep(0.1)
        sys.exit("tensorboard never showed the tag")
    finally:
        server.kill()
        server.wait()


def main():
    how, folder, tag = sys.argv[1:]
    print(json.dumps(accumulated(folder, tag) if how == "accumulator" else served(folder, tag, how == "fast")))


if __name__ == "__main__":
    main()
