#!/usr/bin/env python3
"""The live page of a simulated job of 1,000 nodes: the page's own files, served with the answers of a stub. Prints how
long a browser draws it, and checks what its tables show and what its buttons send. For page_browser_test.cc. Each check prints a line; a failure
ends the driver.

usage: crowd_driver.py PICTURES_FOLDER
Exit 77: a requirement is missing; the last line names it."""
import http.server
import json
import os
import re
import statistics
import sys
import threading
import time

sys.dont_write_bytecode = True
TOP = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(TOP, "tests", "support"))
from browser import Browser, check  # noqa: E402

NODES, WORKERS = 1000, 8  # per node
BAD = 700  # the node that is away
MOST_ROWS = 100
DRAWS = 9
FILES = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"), "/page.js": ("page.js", "text/javascript"),
         "/parts.js": ("parts.js", "text/javascript"), "/chart.js": ("chart.js", "text/javascript"),
         "/icon.svg": ("icon.svg", "image/svg+xml")}


# ---- the job's states: docs/formats.md

def worker(node, local, tick):
    rank = node * WORKERS + local
    return {"rank": rank, "local_rank": local, "pid": 4000 + rank, "step": tick, "step_s": 0.05 + rank % 7 * 1e-4,
            "data_wait_s": 0.004, "exchange_wait_s": 0.03, "cpus_busy": 0.5 + (rank + tick) % 50 / 100, "cpu_s": 3.5 * tick,
            "memory_bytes": (300 << 20) + (rank * tick << 10), "quiet_s": 0.01}


def node(number, tick):
    bad = number == BAD
    return {"id": f"id{number:04}", "host": f"node{number:04}", "address": f"10.0.{number // 250}.{number % 250}",
            "state": "away, expected" if bad else "member", "level": "bad" if bad else "good", "node_rank": number,
            "first_rank": number * WORKERS, "workers": WORKERS, "silent_s": 7.5 if bad else 0.1 + (number + tick) % 9 / 100,
            "main_loop_age_s": 0.01, "note": "no sign of life for 7.5 s" if bad else "", "cpus_busy": 3 + (number + tick) % 90 / 100,
            "cpus": 8, "machine_cpus": 8, "memory_bytes": (9 << 30) + (tick << 20), "memory_total_bytes": 32 << 30,
            "ranks": [] if bad else [worker(number, local, tick) for local in range(WORKERS)],
            "gpus": [{"name": "GPU", "busy_percent": (number + tick) % 100, "memory_bytes": 20 << 30,
                      "memory_total_bytes": 80 << 30, "temperature_c": 61}]}


def told(tick):
    return {"version": "stub", "answers": True, "why": "", "uptime_s": 90.0 + tick, "jobs": [{
        "job": "crowd", "phase": "running", "since_s": 60.0 + tick, "generation": 3, "ended_for_s": None,
        "last_change": "node0031 was lost (killed); restart 1 of 3", "restarts": 1, "max_restarts": 3, "min_nodes": 900,
        "max_nodes": NODES, "may_regroup": True, "samples_per_s": 1.2e6 + tick, "world_size": NODES * WORKERS, "step": tick,
        "step_s": 0.0503, "samples": 32 * tick, "loss": 2.5 / tick, "learning_rate": 0.1, "accuracy": 0.2 * tick,
        "epoch": 1, "epochs": 2, "total_steps": 8, "run": "resnet-3", "left_s": 0.0503 * (8 - tick),
        "stragglers": [{"rank": 8 * i, "node": f"id{i:04}", "own_step_s": 0.05 - i / 1000, "times_median": 1.5 - i / 20}
                       for i in range(10)],
        "nodes": [node(number, tick) for number in range(NODES)],
        "events": [{"number": i, "time_ms": 1.7e12 + 1000 * i, "text": f"node{i:04} joins"} for i in range(1, 201)]}]}


class Stub(http.server.BaseHTTPRequestHandler):
    """Serves the page's files, an operator's session and the job; records requests. Only the log-in needs no token."""
    protocol_version = "HTTP/1.1"
    states = [json.dumps(told(tick)) for tick in range(1, 5)]  # made once: slower than drawing it
    sent = []

    def answer(self, body, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in GUARDED:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path = self.path.split("?")[0]
        if path in FILES:
            name, kind = FILES[path]
            with open(os.path.join(TOP, "page", "assets", name), "rb") as file:
                self.answer(file.read(), kind)
        elif self.headers["Authorization"] != "Bearer mark":
            self.send_error(401)
        elif path == "/api/live":
            self.tell()
        elif path == "/api/log":
            self.answer(json.dumps({"attempt": "0", "out": "a line\n", "err": "", "out_end": 7, "err_end": 0,
                                    "more": False}).encode(), "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/login":
            return self.answer(json.dumps({"role": "operator", "token": "mark"}).encode(), "application/json")
        self.sent.append((self.path, json.loads(body), self.headers["Authorization"]))
        self.answer(json.dumps({"done": "it is done"}).encode(), "application/json")

    def tell(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for turn in range(10000):
                self.wfile.write(f"event: state\ndata: {self.states[turn % len(self.states)]}\n\n".encode())
                self.wfile.flush()
                time.sleep(0.5)
        except OSError:
            pass  # the browser has disconnected

    def log_message(self, *_):
        pass


def guarded():
    """Sends the headers of page/gate.cc, so that the page has the restrictions of the real one."""
    with open(os.path.join(TOP, "page", "gate.cc"), encoding="utf-8") as file:
        text = re.sub(r'"\s*\n\s*"', "", file.read())
    found = re.findall(r'\{"((?:[A-Z][a-z]+-)+(?:[A-Z][a-z]+|Options))",\s*"([^"]*)"\}', text)
    assert "Content-Security-Policy" in dict(found), found
    return found


GUARDED = guarded()


# ---- the checks

def draws(browser, what):
    """Prints the median milliseconds of several draws, from a message to the document's new layout. A figure and no check:
    it depends on what else the machine does."""
    took = browser.run_async("""
        const [count, done] = arguments, took = [];
        new MutationObserver((_, self) => {
          took.push(Number(document.body.dataset.took));
          if (took.length === count) { self.disconnect(); done(took); }
        }).observe(document.body, {attributeFilter: ['data-shown']});""", DRAWS)
    print(f"{what} are drawn in {statistics.median(took):.0f} ms, the median of {took}", flush=True)


def tables(browser):
    rows = lambda table: len(browser.find(f"#{table} tbody tr"))  # noqa: E731
    browser.wait("the job is shown", lambda: browser.find("#nodes tbody tr"))
    check("a table has 100 rows", (rows("nodes"), rows("workers")) == (MOST_ROWS, MOST_ROWS))
    check("the node that is away comes first", browser.text("#nodes tbody tr:first-child td")[1] == f"node{BAD:04}")
    draws(browser, f"{NODES} nodes, of which {MOST_ROWS} are shown,")
    browser.one("#more-nodes").click()
    check("all nodes are shown", rows("nodes") == NODES and not browser.one("#more-nodes").is_displayed())
    check("in their order", browser.text("#nodes tbody tr:last-child td")[1] == f"node{NODES - 1:04}")
    draws(browser, f"{NODES} rows of nodes")
    check("the other table is cut as before", rows("workers") == MOST_ROWS)
    check("its button says how many there are",
          browser.text("#more-workers") == [f"Show all {(NODES - 1) * WORKERS}"])


def buttons(browser):
    def press(selector, **sent):
        browser.run("document.querySelector(arguments[0]).click()", selector)
        browser.wait("it asks first", lambda: browser.shows("#confirm"))
        check(f"{selector}: nothing is sent before the answer", not Stub.sent)
        browser.one("#confirm-yes").click()
        browser.wait("what was done is told", lambda: browser.shows("#said"))
        path, body, shown = browser.wait("it is sent", lambda: Stub.sent and Stub.sent.pop())
        check(f"{selector} sends {path} {body}", (path, body, shown) == (sent["path"], sent["body"], "Bearer mark"))

    press("#nodes tr.bad button", path="/api/evict", body={"job": "crowd", "node": f"id{BAD:04}"})
    press("#nodes tr.good button", path="/api/drain", body={"job": "crowd", "node": "id0000"})
    press("#stop", path="/api/stop", body={"job": "crowd"})
    press("#stop-saved", path="/api/stop", body={"job": "crowd", "checkpoint": True})
    press("#stacks", path="/api/stacks", body={"job": "crowd"})


def main(pictures):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    with Browser(listens=False) as browser:  # it receives gigabytes
        browser.driver.get(url)
        browser.wait("the log-in is shown", lambda: browser.shows("#login"))
        browser.one("#password").send_keys("a password")
        browser.one("#login-form button").click()
        tables(browser)
        buttons(browser)
        browser.driver.get(url)  # with tables of 100 rows again, because axe checks each; the session is kept
        browser.wait("the job is shown", lambda: browser.find("#workers tbody tr"))
        browser.run("document.querySelector('#workers button').click()")
        browser.wait("the log is shown", lambda: browser.text("#log") == ["a line\n"])
        for name, dark, width in (("crowd.png", False, 1280), ("crowd_dark.png", True, 1280), ("crowd_phone.png", False, 390),
                                  ("crowd_phone_dark.png", True, 390)):
            browser.look(os.path.join(pictures, name), dark, width)
        browser.run("document.querySelector('#stop').click()")
        browser.wait("the question is shown", lambda: browser.shows("#confirm"))
        browser.axe("a question")
        check(f"no error in the console: {browser.errors()}", not browser.errors())
    print("all is well")


if __name__ == "__main__":
    main(sys.argv[1])
