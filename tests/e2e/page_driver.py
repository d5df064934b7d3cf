#!/usr/bin/env python3
"""Drives the live page of a job in a headless Chromium, and asks it things that it must refuse. For
launcher_page_test.cc, which starts the job; each check prints a line, a failure ends it.

usage: page_driver.py URL VIEWER OPERATOR KILLED_PID PICTURES_FOLDER
Exit 77: what it needs is not here, and the last line says what."""
import base64
import glob
import http.client
import json
import os
import shutil
import signal
import ssl
import sys
import time
import urllib.parse

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    print("no selenium here")
    sys.exit(77)
if not shutil.which("chromium") or not shutil.which("chromedriver"):
    print("no chromium and chromedriver here")
    sys.exit(77)

url, viewer, operator, killed, pictures = sys.argv[1:]
where = urllib.parse.urlsplit(url)
PATIENCE = 30


def request(method, path, body=None, headers=None, host=None):
    """Status, headers and body of an answer, asked without a browser."""
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


def wait(what, condition, patience=PATIENCE):
    begun = time.monotonic()
    while not (found := condition()):
        if time.monotonic() - begun > patience:
            raise SystemExit(f"FAILED: {what} (not within {patience} s)\n{browser.page_source[:20000]}")
        time.sleep(0.02)
    return found


def check(what, true):
    if not true:
        raise SystemExit(f"FAILED: {what}")
    print("ok:", what, flush=True)


def open_browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--ignore-certificate-errors", "--window-size=1280,1400"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))


def text(selector):
    return browser.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def tile(name):
    return dict(zip(text("#tiles dt"), text("#tiles dd"))).get(name, "")


def log_in(password):
    browser.find_element(By.ID, "password").send_keys(password)
    browser.find_element(By.CSS_SELECTOR, "#login-form button").click()


def look(name, dark, width, height):
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
    browser.execute_script("scrollTo(0, 0)")
    time.sleep(0.3)  # a frame of the new layout
    browser.save_screenshot(os.path.join(pictures, name))
    check(f"nothing is wider than the page at {width} pixels",
          browser.execute_script("return document.documentElement.scrollWidth <= innerWidth"))
    files = [file for folder in sys.path for file in
             glob.glob(f"{folder}/axe_*/**/axe.min.js", recursive=True)]
    if not files:
        return
    with open(files[0], encoding="utf-8") as file:
        browser.execute_script(file.read())
    wrong = browser.execute_async_script(
        "const done = arguments[0]; axe.run(document, {rules: {dlitem: {enabled: false}}})"  # old axe: no div in dl
        ".then(r => done(r.violations.map(v => [v.id, v.nodes[0].html])))")
    check(f"axe has nothing to say ({name}): {wrong}", not wrong)


def refused_without_a_browser():
    for path in ("/api/state", "/api/live", "/api/log?rank=0", "/metrics"):
        check(f"{path} wants a log-in", request("GET", path)[0] == 401)
    check("a foreign Host is refused", request("GET", "/", host="evil.example")[0] == 421)
    check("probes need no log-in", request("GET", "/healthz")[0] == 200 and request("GET", "/readyz")[0] == 200)
    form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"{where.scheme}://{where.netloc}"}
    check("a wrong password is refused", request("POST", "/login", "password=x", form)[0] == 403)
    status, headers, _ = request("POST", "/login", urllib.parse.urlencode({"password": operator}), form)
    cookie = headers["Set-Cookie"]
    check("the cookie is out of reach", status == 204 and "HttpOnly" in cookie and "SameSite=Strict" in cookie)
    check("over TLS it is never sent in the clear", where.scheme != "https" or "Secure" in cookie)
    session = {"Cookie": cookie.split(";")[0]}
    csrf = json.loads(request("GET", "/api/session", headers=session)[2])["csrf"]
    body = json.dumps({"job": ""})
    check("a forged POST is refused without the page's mark",
          request("POST", "/api/stop", body, {**session, "Origin": form["Origin"]})[0] == 403)
    check("a forged POST is refused from another origin", request(
        "POST", "/api/stop", body, {**session, "Origin": "https://evil.example", "X-CSRF-Token": csrf})[0] == 403)
    check("a forged POST is refused at another host", request(
        "POST", "/api/stop", body, {**session, "Origin": "https://evil.example", "X-CSRF-Token": csrf},
        host="evil.example")[0] == 421)
    basic = base64.b64encode(f"prometheus:{viewer}".encode()).decode()
    status, headers, body = request("GET", "/metrics", headers={"Authorization": f"Basic {basic}"})
    check("metrics are scraped by password", status == 200 and b"mtrun_job_world_size" in body)
    with open(os.path.join(pictures, "metrics.txt"), "wb") as file:
        file.write(body)


def seen_by_a_viewer():
    browser.get(url)
    wait("the log-in is shown", lambda: browser.find_element(By.ID, "login").is_displayed())
    log_in("wrong")
    wait("a wrong password is told", lambda: "wrong password" in text("#login-error"))
    check("nothing is shown without the password", not browser.find_element(By.ID, "content").is_displayed())
    log_in(viewer)
    wait("the job is shown", lambda: tile("Phase") == "running")
    check("a viewer has no buttons", not browser.find_element(By.ID, "job-buttons").is_displayed())
    browser.find_element(By.ID, "logout").click()
    wait("logged out", lambda: browser.find_element(By.ID, "login").is_displayed())


def watched():
    log_in(operator)
    wait("three nodes are members", lambda: text("#nodes .state") == ["member"] * 3)
    wait("steps are told", lambda: tile("Step") not in ("", "-"))
    first = tile("Step")
    wait("values move", lambda: tile("Step") != first)
    wait("samples a second are told", lambda: tile("Samples/s") not in ("", "-"))
    wait("the loss is drawn", lambda: any(figure.is_displayed() and figure.text.startswith("Loss")
                                          for figure in browser.find_elements(By.CSS_SELECTOR, "#charts figure")))
    wait("data waits are told", lambda: "4.00 ms" in text("#workers td"))
    wait("stragglers are ranked", lambda: text("#slow li")[0].startswith("rank 1 on node1"))
    check("values move, with steps, rates, waits and stragglers", True)
    browser.execute_script("document.querySelector('#workers button').click()")
    wait("the log's tail is shown", lambda: "<script>document.title='taken'</script>" in text("#log")[0])
    check("a script in a log is text", "taken" not in browser.title and not browser.find_elements(
        By.CSS_SELECTOR, "#log script"))
    look("desktop.png", False, 1280, 1400)


def lost():
    begun = time.monotonic()
    os.kill(int(killed), signal.SIGKILL)
    wait("the lost node is red", lambda: browser.find_elements(By.CSS_SELECTOR, "#nodes tr.bad"))
    took = time.monotonic() - begun
    check(f"the lost node is red after {took:.2f} s", took < 2)
    wait("the job goes on without it", lambda: tile("Workers") == "2")
    look("lost_dark.png", True, 1280, 1400)
    look("phone.png", False, 390, 1800)
    look("phone_dark.png", True, 390, 1800)
    look("back.png", False, 1280, 1400)


def drained():
    rows = browser.find_elements(By.CSS_SELECTOR, "#nodes tbody tr.good")
    check("two nodes are left", len(rows) == 2)
    rows[1].find_element(By.CSS_SELECTOR, "button").click()
    wait("it asks first", lambda: browser.find_element(By.ID, "confirm").is_displayed())
    browser.find_element(By.ID, "confirm-no").click()
    wait("no is no", lambda: not browser.find_element(By.ID, "confirm").is_displayed())
    check("nothing has happened", tile("Workers") == "2")
    rows[1].find_element(By.CSS_SELECTOR, "button").click()
    browser.find_element(By.ID, "confirm-yes").click()
    wait("the drained node has left", lambda: tile("Workers") == "1")
    check("drained by button", any("asked to leave" in event for event in text("#events li")))


def stopped():
    browser.find_element(By.ID, "stacks").click()
    browser.find_element(By.ID, "confirm-yes").click()
    wait("stacks are asked for", lambda: "stacks" in browser.find_element(By.ID, "said").text)
    browser.find_element(By.ID, "stop-saved").click()
    browser.find_element(By.ID, "confirm-yes").click()
    wait("the stop is told", lambda: "leave after a step" in browser.find_element(By.ID, "said").text)
    check("stacks and stop by button", True)


def nothing_elsewhere():
    asked = set()
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            asked.add(message["params"]["request"]["url"])
    foreign = [one for one in asked if not one.startswith((url, "data:", "chrome"))]
    check(f"no request to another origin: {foreign}", not foreign)
    # The refused log-in is a line of the browser's own.
    errors = [entry for entry in browser.get_log("browser")
              if entry["level"] == "SEVERE" and "/login" not in entry["message"]]
    check(f"no error in the console: {errors}", not errors)


browser = open_browser()
try:
    refused_without_a_browser()
    seen_by_a_viewer()
    watched()
    lost()
    drained()
    nothing_elsewhere()
    stopped()
finally:
    browser.quit()
print("all is well")
