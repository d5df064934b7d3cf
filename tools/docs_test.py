#!/usr/bin/env python3
"""Tests of tools/docs with the real documents: the site is built, an error in a document is rejected, and a browser
that reads every page contacts no other host. Needs tools/setup --test-tools; ctest runs it as docs.site."""
import functools
import glob
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
ROOT_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
COPIED = ("docs", "tools", "python", "LICENSE", *ROOT_PAGES)  # inputs of the site's build


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and records the requests."""

    def log_request(self, code="-", size="-"):
        self.server.asked.append(self.path)

    def log_error(self, *args):
        pass


def serve(test, folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return server


def address(server):
    return f"http://127.0.0.1:{server.server_port}"


class Site(unittest.TestCase):
    """The documents as a site, in a separate folder."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="mtrun-site-")
        for name in COPIED:
            source, copy = os.path.join(TOP, name), os.path.join(cls.folder, name)
            if os.path.isdir(source):
                shutil.copytree(source, copy)
            else:
                shutil.copy(source, copy)
        done = cls.build("site")
        if done.returncode:
            shutil.rmtree(cls.folder)
            raise RuntimeError(done.stdout + done.stderr)
        cls.site = os.path.join(cls.folder, "site")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def build(cls, out):
        return subprocess.run(["tools/docs", "build", "--out", out], cwd=cls.folder, capture_output=True, text=True, check=False)

    def pages(self):
        return sorted(glob.glob(f"{self.site}/**/*.html", recursive=True))


class BuildTest(Site):
    def refused(self, text, document="docs/faq.md"):
        """Returns the errors of tools/docs if the document also has this text."""
        page = os.path.join(self.folder, document)
        with open(page, encoding="utf-8") as file:
            before = file.read()
        try:
            with open(page, "a", encoding="utf-8") as file:
                file.write("\n" + text + "\n")
            done = self.build("refused")
        finally:
            with open(page, "w", encoding="utf-8") as file:
                file.write(before)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "refused")))
        return done.stdout + done.stderr

    def test_every_document_is_a_page(self):
        documents = glob.glob(f"{self.folder}/docs/**/*.md", recursive=True)
        wanted = {re.sub(r"README\.md$|\.md$", lambda end: "index.html" if end[0] == "README.md" else ".html",
                         os.path.relpath(path, f"{self.folder}/docs")) for path in documents}
        wanted |= {"404.html", "project/index.html", "project/CONTRIBUTING.html", "project/CHANGELOG.html"}
        self.assertEqual(wanted, {os.path.relpath(path, self.site) for path in self.pages()})

    def test_lists_and_tables_are_read_as_such(self):
        for path in self.pages():
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"<pre.*?</pre>|<code>.*?</code>", "", file.read(), flags=re.S)
            for paragraph in re.findall(r"<(?:p|li|td)>(.*?)</(?:p|li|td)>", text, re.S):
                self.assertIsNone(re.search(r"^(?:[-*] |\d+\. |\|)|\*\*|\]\(|`", paragraph, re.M), f"{path}: {paragraph}")

    def test_a_link_to_nothing_is_refused(self):
        self.assertIn("nowhere.md", self.refused("[x](nowhere.md)"))

    def test_a_link_to_no_heading_is_refused(self):
        self.assertIn("no-such-heading", self.refused("[x](start.md#no-such-heading)"))

    def test_links_between_the_root_and_docs_are_checked(self):
        for document in ROOT_PAGES:
            self.assertIn("docs/nowhere.md", self.refused("[x](docs/nowhere.md)", document))
            self.assertIn("no-such-heading", self.refused("[x](docs/start.md#no-such-heading)", document))
        self.assertIn("nowhere.md", self.refused("[x](../nowhere.md)"))
        self.assertIn("no-such-heading", self.refused("[x](../CONTRIBUTING.md#no-such-heading)"))

    def test_a_page_that_the_navigation_lacks_is_refused(self):
        page = os.path.join(self.folder, "docs", "lonely.md")
        self.addCleanup(lambda: os.remove(page))
        with open(page, "w", encoding="utf-8") as file:
            file.write("# Lonely\n")
        self.assertIn("lonely.md", self.refused(""))

    def test_a_picture_from_elsewhere_is_refused(self):
        self.assertIn("<img> loads https://example.org/x.png", self.refused("![x](https://example.org/x.png)"))

    def test_a_script_from_elsewhere_is_refused(self):
        self.assertIn("<script> loads //example.org/x.js", self.refused('<script src="//example.org/x.js"></script>'))

    def test_a_style_from_elsewhere_is_refused(self):
        self.assertIn("loads https://example.org/x", self.refused('<p style="background:url(https://example.org/x)">x</p>'))

    def test_a_folder_of_others_is_not_replaced(self):
        os.mkdir(os.path.join(self.folder, "mine"))
        with open(os.path.join(self.folder, "mine", "thesis.txt"), "w", encoding="utf-8") as file:
            file.write("years of work")
        self.assertIn("is no site", self.build("mine").stderr)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "mine", "thesis.txt")))


class BrowserTest(Site):

    def setUp(self):
        from selenium import webdriver  # Debian's package
        from selenium.webdriver.chrome.service import Service
        options = webdriver.ChromeOptions()
        profile = tempfile.mkdtemp(prefix="mtrun-chromium-")
        self.addCleanup(shutil.rmtree, profile, ignore_errors=True)
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
        self.browser = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.addCleanup(self.browser.quit)
        self.server = serve(self, self.site)

    def look_at(self, width):
        """Loads every page in a window of this width."""
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600})
        for path in self.pages():
            name = os.path.relpath(path, self.site)
            self.browser.get(f"{address(self.server)}/{name}")
            wide, room = self.browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
            self.assertLessEqual(wide, room, f"{name} is wider than a window of {width}")
            self.assertEqual(self.browser.get_log("browser"), [], name)

    def hosts(self):
        """Returns the hosts that the browser has contacted."""
        found = set()
        for entry in self.browser.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                found.update(re.findall(r"^(?:https?|wss?|ftp)://[^/]*", url))
        return found

    def test_pages_fit_and_load_only_from_their_server(self):
        self.look_at(1280)
        self.look_at(390)
        self.assertEqual(self.hosts(), {address(self.server)})

    def test_the_browser_refuses_what_a_script_would_ask_elsewhere(self):
        other = serve(self, self.site)
        self.browser.get(f"{address(self.server)}/index.html")
        ended = self.browser.execute_async_script(
            "const done = arguments[1]; fetch(arguments[0]).then(() => done('loaded'), () => done('refused'))", address(other))
        self.assertEqual((ended, other.asked), ("refused", []))

    def test_the_search_finds_a_message(self):
        self.browser.get(f"{address(self.server)}/index.html?q=neither+can+be+trusted")
        found = self.browser.execute_async_script("""
            const done = arguments[0];
            const look = () => document.querySelector('.md-search-result__link[href*="troubleshooting"]') ? done(true) : 0;
            new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
            look();""")
        self.assertTrue(found)


if __name__ == "__main__":
    unittest.main()
