"""A headless Chromium for drivers of pages, with helpers to inspect pages, wait and report errors. Importing it exits with 77
if selenium, Chromium or axe-core is missing; the last line then names it."""
import glob
import json
import os
import shutil
import sys
import tempfile
import time

PATIENCE = 30  # seconds


def skip(why):
    print(why, flush=True)
    sys.exit(77)


try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    skip("no selenium here")
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    skip("no chromium and chromedriver here")


def axe_file():
    """Returns axe-core's file. PyPI has it in several packages; tools/setup --test-tools installs one of them."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folders = [*sys.path, *glob.glob(f"{cache}/mtrun/viewers/lib/python3*/site-packages")]
    return next((file for folder in folders for file in glob.glob(f"{folder}/axe_*/axe.min.js")), None)


AXE = axe_file()
if AXE is None:
    skip("no axe-core here")


def check(what, true):
    if not true:
        raise SystemExit(f"FAILED: {what}")
    print("ok:", what, flush=True)


class Browser:
    """A context manager that ends the browser. `listens`: it records all requests, for asks_nobody_else()."""

    def __init__(self, listens=True):
        options = webdriver.ChromeOptions()
        self.profile = tempfile.mkdtemp(prefix="mtrun-chromium-")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--ignore-certificate-errors", "--window-size=1280,1400", f"--user-data-dir={self.profile}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", **({"performance": "ALL"} if listens else {})})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def run_async(self, script, *arguments):
        """Runs a script that calls its last argument when it is done."""
        return self.driver.execute_async_script(script, *arguments)

    def find(self, selector):
        """Returns all matching elements."""
        return self.driver.find_elements("css selector", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def shows(self, selector):
        """Returns whether an element is visible; false if the page is not loaded yet."""
        return any(element.is_displayed() for element in self.find(selector))

    def text(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)

    def wait(self, what, condition, patience=PATIENCE):
        begun = time.monotonic()
        while not (found := condition()):
            if time.monotonic() - begun > patience:
                raise SystemExit(f"FAILED: {what} (not within {patience} s)\n{self.driver.page_source[:20000]}")
            time.sleep(0.02)
        return found

    def emulate(self, dark=False, width=1280, height=1400, media=""):
        """`media`: "print", or "" for the screen."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "media": media,
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                         {"name": "prefers-reduced-motion", "value": "reduce"}]})
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.run("scrollTo(0, 0)")
        time.sleep(0.3)  # a frame of the new layout

    def axe(self, name):
        """Fails if axe-core finds a violation."""
        if not self.run("return 'axe' in window"):
            with open(AXE, encoding="utf-8") as file:
                self.run(file.read())
        looked, wrong = self.run_async("""
            const done = arguments[0];
            axe.run(document).then(r => done([
              r.passes.length, r.violations.map(v => [v.id, v.help, v.nodes.slice(0, 3).map(n => n.html)])]))""")
        check(f"axe has nothing to say after {looked} rules ({name}): {wrong}", looked > 10 and not wrong)

    def look(self, file, dark=False, width=1280, height=1400, media=""):
        """Takes a picture, and checks the page's width and axe."""
        self.emulate(dark, width, height, media)
        name = os.path.basename(file)
        self.driver.save_screenshot(file)
        check(f"nothing is wider than the page at {width} pixels ({name})",
              self.run("return document.documentElement.scrollWidth <= innerWidth"))
        self.axe(name)

    def asked(self):
        """Returns the addresses requested since the last call."""
        found = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return found

    def errors(self, known=()):
        """Returns the console's error lines, except those that contain a text of `known`."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" and not any(text in entry["message"] for text in known)]

    def asks_nobody_else(self, *own):
        foreign = [one for one in self.asked() if not one.startswith((*own, "data:", "chrome"))]
        check(f"no request to another origin: {foreign}", not foreign)
