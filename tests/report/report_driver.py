#!/usr/bin/env python3
"""Opens report.html in a headless Chromium: on a screen, light and dark, on a phone, and printed. For the tests that make
a report. Each check prints a line; a failure ends the driver.

usage: report_driver.py REPORT_HTML LEAST_REGROUPINGS PICTURES_FOLDER
Exit 77: a requirement is missing; the last line names it."""
import base64
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from browser import Browser, check  # noqa: E402

# For each canvas: its id, the number of painted pixels, and the number of colours.
PAINTED = """
return [...document.querySelectorAll('canvas')].map(canvas => {
  const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer);
  const painted = pixels.filter(pixel => pixel !== 0);
  return [canvas.id, painted.length, new Set(painted).size];
});"""
CHARTS = {"loss", "accuracy", "rate", "throughput", "world"}
LEAST_PAINTED, LEAST_COLOURS = 1000, 8  # axes and letters alone exceed this


def drawn(browser, how):
    found = {name: (pixels, colours) for name, pixels, colours in browser.run(PAINTED)}
    check(f"all charts are there ({how}): {sorted(found)}", CHARTS <= set(found))
    blank = [name for name, (pixels, colours) in found.items() if pixels < LEAST_PAINTED or colours < LEAST_COLOURS]
    check(f"no chart is blank ({how}): {found}", not blank)
    return browser.run("return [...document.querySelectorAll('canvas')].map(canvas => canvas.toDataURL())")


def printed(browser, pictures):
    """Checks the printed page, whatever the screen's colours."""
    browser.run("dispatchEvent(new Event('beforeprint'))")
    browser.look(os.path.join(pictures, "report_print.png"), True, 1000, 1400, media="print")
    drawn(browser, "print")
    paper = browser.run("return getComputedStyle(document.body).backgroundColor")
    check(f"paper is white: {paper}", paper == "rgb(255, 255, 255)")
    browser.run("dispatchEvent(new Event('afterprint'))")
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"])
    check(f"a PDF of {len(pdf)} bytes is made", pdf.startswith(b"%PDF") and len(pdf) > 20000)
    with open(os.path.join(pictures, "report.pdf"), "wb") as file:
        file.write(pdf)


def main(path, regroupings, pictures):
    url = pathlib.Path(path).resolve().as_uri()
    with Browser() as browser:
        browser.emulate()
        browser.driver.get(url)
        marks = browser.run("return JSON.parse(document.getElementById('charts').textContent).find(c => c.id === 'world').marks")
        check(f"{len(marks)} regroupings are marked", len(marks) >= int(regroupings))
        browser.look(os.path.join(pictures, "report.png"), height=3200)
        light = drawn(browser, "light")
        browser.look(os.path.join(pictures, "report_dark.png"), dark=True, height=3200)
        dark = drawn(browser, "dark")
        check("the charts have the colours of the dark", all(a != b for a, b in zip(light, dark)))
        for name, is_dark in (("report_phone.png", False), ("report_phone_dark.png", True)):
            browser.look(os.path.join(pictures, name), is_dark, 390)
        drawn(browser, "phone")
        printed(browser, pictures)
        browser.asks_nobody_else(url)
        check(f"no error in the console: {browser.errors()}", not browser.errors())
    print("all is well")


if __name__ == "__main__":
    main(*sys.argv[1:])
