#!/usr/bin/env python3
"""Acts as an operator at the live page of a service whose job runs on a disconnected node: the page's Evict, then its Stop.
For launcher_page_test.cc, which disconnects the node at this driver's first line and reconnects it at the second. A failure
ends the driver.

usage: page_evict_driver.py URL OPERATOR
Exit 77: a requirement is missing; the last line names it."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from browser import Browser, check  # noqa: E402

url, operator = sys.argv[1:]


def nodes():
    """Returns the nodes' states by host."""
    return dict(zip(browser.text("#nodes td:nth-child(2)"), browser.text("#nodes .state")))


def press(selector):
    browser.run("document.querySelector(arguments[0]).click()", selector)
    browser.wait("it asks first", lambda: browser.shows("#confirm"))
    browser.one("#confirm-yes").click()


def evicted():
    button = "#nodes tr.bad button"
    browser.wait("the node that is cut off is red, with a button", lambda: browser.text(button) == ["Evict"])
    check("the job waits for it", nodes() == {"node1": "lost", "node2": "ready"} and "may still run on node1" in browser.text("#change")[0])
    press(button)
    browser.wait("the other node takes its place", lambda: nodes().get("node2") == "member")
    browser.wait("the eviction is told", lambda: any("evicted" in event for event in browser.text("#events li")))


with Browser() as browser:
    browser.driver.get(url)
    browser.wait("the log-in is shown", lambda: browser.shows("#login"))
    browser.one("#password").send_keys(operator)
    browser.one("#login-form button").click()
    browser.wait("a member and a spare are shown", lambda: nodes() == {"node1": "member", "node2": "spare"})
    check("one runs, one waits", True)
    evicted()
    check("evicted by button", True)
    browser.wait("the evicted one waits now", lambda: nodes().get("node1") == "spare")
    press("#stop")
    browser.wait("the job has ended", lambda: "Ended" in browser.text("#change")[0])
    check("stopped by button", True)
    check(f"no error in the console: {browser.errors()}", not browser.errors())
print("all is well")
