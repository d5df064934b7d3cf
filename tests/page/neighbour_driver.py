#!/usr/bin/env python3
"""An operator's browser opens a page at another port of the same host, where another user of the machine may listen. That
page must get no right from the live page's session. For page_browser_test.cc, which serves the live page. Each check prints
a line; a failure ends the driver.

usage: neighbour_driver.py URL OPERATOR
Exit 77: a requirement is missing; the last line names it."""
import http.server
import json
import os
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from browser import Browser, check  # noqa: E402

PAGE = """<!DOCTYPE html><title>another page</title>
<form method="post" action="%sapi/stop" enctype="text/plain"><input name='{"job": ""}'></form>
<script>
fetch('/found', {method: 'POST', credentials: 'include', body: JSON.stringify([document.cookie, sessionStorage.length])});
</script>"""


class Neighbour(http.server.BaseHTTPRequestHandler):
    """Serves PAGE; records the headers of all requests, and what the page finds in its browser."""
    headers_seen, found = [], []

    def do_GET(self):
        self.headers_seen.append(dict(self.headers))
        self.reply(PAGE % url)

    def do_POST(self):
        self.headers_seen.append(dict(self.headers))
        self.found.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.reply("")

    def reply(self, text):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


def visits_another_port():
    browser.driver.get(f"http://127.0.0.1:{server.server_port}/")
    browser.wait("the other page has run", lambda: Neighbour.found)
    shown = {name for headers in Neighbour.headers_seen for name in headers} & {"Cookie", "Authorization"}
    check(f"the browser shows it no credential: {shown}", not shown)
    check(f"it finds none: {Neighbour.found}", Neighbour.found == [["", 0]])
    browser.run("document.forms[0].submit()")
    browser.wait("what it posts is refused", lambda: any("log in first" in text for text in browser.text("body")))
    check("it cannot stop the job", True)


def acts_on_the_page_itself():
    browser.driver.get(url)
    browser.wait("the session is still there", lambda: browser.shows("#logout"))
    status = browser.run_async("ask('/api/stop', {method: 'POST', body: 'no JSON'}).then((a) => arguments[0](a.status))")
    check(f"the page itself may act: {status}", status == 400)
    browser.driver.switch_to.new_window("tab")
    browser.driver.get(url)
    browser.wait("another tab has its own log-in", lambda: browser.shows("#login"))
    browser.driver.switch_to.window(browser.driver.window_handles[0])


def ends_with_its_session():
    check("the session lasts", browser.shows("#logout"))
    browser.run("ask('/logout', {method: 'POST'})")  # without the page's own reaction to its button
    browser.wait("the page asks for the password, because its stream has ended", lambda: browser.shows("#login"))
    check("the token is forgotten", browser.run("return sessionStorage.length") == 0)


url, operator = sys.argv[1:]
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Neighbour)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
with Browser(listens=False) as browser:
    browser.driver.get(url)
    browser.wait("the log-in is shown", lambda: browser.shows("#login"))
    browser.one("#password").send_keys(operator)
    browser.one("#login-form button").click()
    browser.wait("logged in", lambda: browser.shows("#logout"))
    visits_another_port()
    acts_on_the_page_itself()
    ends_with_its_session()
print("all is well")
