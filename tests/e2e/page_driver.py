#!/usr/bin/env python3
"""Drives the live page of a job in a headless Chromium, and sends requests that it must refuse. For launcher_page_test.cc,
which starts the job. Each check prints a line; a failure ends the driver.

usage: page_driver.py URL VIEWER OPERATOR KILLED_PID PICTURES_FOLDER
Exit 77: a requirement is missing; the last line names it."""
import base64
import http.client
import json
import os
import signal
import ssl
import sys
import time
import urllib.parse

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from browser import PATIENCE, Browser, check  # noqa: E402

url, viewer, operator, killed, pictures = sys.argv[1:]
where = urllib.parse.urlsplit(url)


def request(method, path, body=None, headers=None, host=None):
    """Returns status, headers and body of an answer, without a browser."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    kinds = {"https": http.client.HTTPSConnection, "http": http.client.HTTPConnection}
    more = {"context": context} if where.scheme == "https" else {}
    connection = kinds[where.scheme](where.hostname, where.port, timeout=PATIENCE, **more)
    connection.putrequest(method, path, skip_host=True)
    connection.putheader("Host", host or where.netloc)
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.putheader("Content-Length", str(len(body or "")))
    connection.endheaders((body or "").encode())
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def tile(name):
    return dict(zip(browser.text("#figures dt, #tiles dt"), browser.text("#figures dd, #tiles dd"))).get(name, "")


def log_in(password):
    browser.one("#password").send_keys(password)
    browser.one("#login-form button").click()


def confirm():
    browser.wait("it asks first", lambda: browser.shows("#confirm"))
    browser.one("#confirm-yes").click()


def look(name, dark, width, height):
    browser.look(os.path.join(pictures, name), dark, width, height)


def refused_without_a_browser():
    for path in ("/api/state", "/api/live", "/api/log?rank=0", "/metrics"):
        check(f"{path} wants a log-in", request("GET", path)[0] == 401)
    check("a foreign Host is refused", request("GET", "/", host="evil.example")[0] == 421)
    check("probes need no log-in", request("GET", "/healthz")[0] == 200 and request("GET", "/readyz")[0] == 200)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"{where.scheme}://{where.netloc}"}
    check("a wrong password is refused", request("POST", "/login", "password=x", form)[0] == 403)
    status, headers, answer = request("POST", "/login", urllib.parse.urlencode({"password": operator}), form)
    token = json.loads(answer)["token"]
    check("a log-in sets no cookie", status == 200 and "Set-Cookie" not in headers)
    session = {"Authorization": f"Bearer {token}"}
    body = json.dumps({"job": ""})
    check("a forged POST is refused with the token as a cookie", request(
        "POST", "/api/stop", body, {"Cookie": f"session={token}", "Origin": form["Origin"]})[0] == 401)
    check("a forged POST is refused from another origin", request(
        "POST", "/api/stop", body, {**session, "Origin": "https://evil.example"})[0] == 403)
    check("a forged POST is refused from another port", request(
        "POST", "/api/stop", body, {**session, "Origin": f"{where.scheme}://{where.hostname}:1"})[0] == 403)
    check("a forged POST is refused at another host", request(
        "POST", "/api/stop", body, {**session, "Origin": "https://evil.example"}, host="evil.example")[0] == 421)
    basic = base64.b64encode(f"prometheus:{viewer}".encode()).decode()
    status, headers, body = request("GET", "/metrics", headers={"Authorization": f"Basic {basic}"})
    check("metrics are scraped by password", status == 200 and b"mtrun_job_world_size" in body)


def seen_by_a_viewer():
    browser.driver.get(url)
    browser.wait("the log-in is shown", lambda: browser.shows("#login"))
    browser.axe("the log-in")
    log_in("wrong")
    browser.wait("a wrong password is told", lambda: "wrong password" in browser.text("#login-error"))
    check("nothing is shown without the password", not browser.one("#content").is_displayed())
    log_in(viewer)
    browser.wait("the job is shown", lambda: tile("Phase") == "running")
    check("a viewer has no buttons", not browser.one("#job-buttons").is_displayed())
    check("no cookie is kept", not browser.driver.get_cookies())
    browser.driver.refresh()
    browser.wait("the session outlives a reload", lambda: tile("Phase") == "running")
    browser.one("#logout").click()
    browser.wait("logged out", lambda: browser.shows("#login"))
    browser.driver.refresh()
    browser.wait("the session is forgotten", lambda: browser.shows("#login"))


def moves():
    browser.wait("steps are told", lambda: tile("Step") not in ("", "-"))
    first = tile("Step")
    browser.wait("values move", lambda: tile("Step") != first)


def watched():
    log_in(operator)
    browser.wait("three nodes are members", lambda: browser.text("#nodes .state") == ["member"] * 3)
    moves()
    browser.wait("samples a second are told", lambda: tile("Samples/s") not in ("", "-"))
    browser.wait("the loss is drawn", lambda: any(figure.is_displayed() and figure.text.startswith("Loss")
                                                  for figure in browser.find("#charts figure")))
    browser.wait("data waits are told", lambda: "4.00 ms" in browser.text("#workers td"))
    browser.wait("stragglers are ranked", lambda: browser.text("#slow li")[0].startswith("rank 1 on node1"))
    check("values move, with steps, rates, waits and stragglers", True)
    browser.run("document.querySelector('#workers button').click()")
    browser.wait("the log's tail is shown", lambda: "<script>document.title='taken'</script>" in browser.text("#log")[0])
    check("a script in a log is text", "taken" not in browser.driver.title and not browser.find("#log script"))
    look("desktop.png", False, 1280, 1400)


def process_of(rank):
    """Returns the pid that the page shows."""
    rows = browser.run("return [...document.querySelectorAll('#workers tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
    return next((int(row[9]) for row in rows if row[0] == str(rank)), None)


def worker_killed():
    """Kills a worker; its node lives on and starts another one."""
    before, generation = process_of(1), tile("Generation")
    check("no restart is counted yet", tile("Restarts").startswith("0 of "))
    os.kill(before, signal.SIGKILL)
    browser.wait("the restart is counted", lambda: tile("Restarts").startswith("1 of "))
    browser.wait("the next generation runs", lambda: tile("Generation") != generation and tile("Phase") == "running")
    browser.wait("another worker has its rank", lambda: process_of(1) not in (before, None))
    check("no node is lost", tile("Workers") == "3" and not browser.find("#nodes tr.bad"))
    check("what has happened is told", any("killed" in event for event in browser.text("#events li")))
    moves()
    check("a killed worker is counted and replaced, and values move again", True)


def lost():
    begun = time.monotonic()
    os.kill(int(killed), signal.SIGKILL)
    browser.wait("the lost node is red", lambda: browser.find("#nodes tr.bad"))
    took = time.monotonic() - begun
    check(f"the lost node is red after {took:.2f} s", took < 2)
    browser.wait("the job goes on without it", lambda: tile("Workers") == "2")
    moves()
    look("lost_dark.png", True, 1280, 1400)
    look("phone.png", False, 390, 1800)
    look("phone_dark.png", True, 390, 1800)
    look("back.png", False, 1280, 1400)


def drained():
    rows = browser.find("#nodes tbody tr.good")
    check("two nodes are left", len(rows) == 2)
    rows[1].find_element("css selector", "button").click()
    browser.wait("it asks first", lambda: browser.shows("#confirm"))
    browser.one("#confirm-no").click()
    browser.wait("no is no", lambda: not browser.one("#confirm").is_displayed())
    check("nothing has happened", tile("Workers") == "2")
    rows[1].find_element("css selector", "button").click()
    confirm()
    browser.wait("the drained node has left", lambda: tile("Workers") == "1")
    check("drained by button", any("asked to leave" in event for event in browser.text("#events li")))


def stopped():
    browser.one("#stacks").click()
    confirm()
    browser.wait("stacks are asked for", lambda: "stacks" in browser.one("#said").text)
    browser.one("#stop-saved").click()
    confirm()
    browser.wait("the stop is told", lambda: "leave after a step" in browser.one("#said").text)
    check("stacks and stop by button", True)


with Browser() as browser:
    refused_without_a_browser()
    seen_by_a_viewer()
    watched()
    worker_killed()
    lost()
    drained()
    browser.asks_nobody_else(url)
    # The browser itself logs refused requests: the log-in, and the followed log while no generation has a rank 0.
    wrong = browser.errors(known=["/login", "/api/log?"])
    check(f"no error in the console: {wrong}", not wrong)
    stopped()
print("all is well")
