#!/usr/bin/env python3
"""Writes what Pillow sees of all images below a folder: read_corpora.py CORPORA OUT. Needs Pillow alone.

OUT gets NUMBER.png (the pixels, turned as the file says) and corpora.json, a list of {"file": below CORPORA, "expected": name or
null where Pillow refuses the file, "why": its words}."""
import json
import os
import sys

from PIL import Image, ImageOps
from writers import rgb


def main():
    corpora, out = sys.argv[1:]
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(corpora) for name in names)
    rows = []
    for number, file in enumerate(files):
        row = {"file": os.path.relpath(file, corpora), "expected": None, "why": None}
        try:
            with Image.open(file) as image:
                seen = rgb(ImageOps.exif_transpose(image))
        except Exception as error:  # pylint: disable=broad-except
            row["why"] = str(error)
        else:
            row["expected"] = f"{number}.png"
            seen.info = {}  # which save() would interpret
            seen.save(os.path.join(out, row["expected"]), compress_level=1)
        rows.append(row)
    with open(os.path.join(out, "corpora.json"), "w", encoding="utf-8") as listing:
        json.dump(rows, listing, indent=1)


if __name__ == "__main__":
    main()
