#!/usr/bin/env python3
"""Compares what an exported model.py sees of the files of make_kinds.py with what they show: compare_model.py TAIL FOLDER, where
TAIL is trainers/program/python/tail.py. Needs Pillow alone. Files that Pillow does not read as they are stay out."""
import json
import os
import sys

from PIL import Image

TURN_BACK = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"}


def main():
    tail, folder = sys.argv[1:]
    with open(tail, encoding="utf-8") as file:
        source = file.read()
    seen = 0
    for upright in (True, False):
        names = {"CONFIG": {"upright": upright, "input_size": 1}, "INPUTS": ("images",), "HERE": "."}
        exec(source, names)  # pylint: disable=exec-used
        for listing in ("kinds.json", "turned.json"):
            with open(os.path.join(folder, listing), encoding="utf-8") as file:
                kinds = json.load(file)
            for kind in kinds:
                if kind["expected"] is None or kind["pillow"] not in ("same", "turned"):
                    continue
                expected = Image.open(os.path.join(folder, kind["expected"]))
                back = TURN_BACK.get(kind.get("orientation"))
                if back and not upright:
                    expected = expected.transpose(getattr(Image.Transpose, back))
                with Image.open(os.path.join(folder, kind["file"])) as image:
                    got = names["to_rgb"](names["upright"](image))
                assert got.size == expected.size and got.tobytes() == expected.tobytes(), (kind["name"], upright)
                seen += 1
    print(seen, "as expected")


if __name__ == "__main__":
    main()
