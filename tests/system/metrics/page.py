#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""page.py MANAGER SERVER FOLDER: looks at the status pages of the two. FOLDER is the browser's. It prints what is to happen to the
cluster, a word a line, and reads it back when that has happened."""

import os
import sys

from browser import Browser

manager, server, folder = sys.argv[1:]
pictures = os.environ["AFAR_PICTURES"]
patience = 60 * int(os.environ.get("AFAR_SLOWNESS", "1"))
TEXT = "document.body.innerText"


def wish(what):
    print(what, flush=True)
    assert sys.stdin.readline().strip() == what


def look(browser, name, width, height, scheme):
    browser.show(width, height, scheme)
    browser.until(f"innerWidth === {width} && matchMedia('(prefers-color-scheme: {scheme})').matches")
    # Nothing sticks out, and nothing that a person reads is cut off or too small.
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than the screen"
    assert browser.evaluate("[...document.querySelectorAll('body *')].every(e => parseFloat(getComputedStyle(e).fontSize) >= 11)"), name
    # The words stand out from the ground: 4.5 to 1, as WCAG 2 has it.
    assert browser.evaluate("""(() => {
        const light = (text) => { const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((c) => (c /= 255) <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
            return .2126 * r + .7152 * g + .0722 * b; };
        const ground = light(getComputedStyle(document.body).backgroundColor), card = light(getComputedStyle(document.querySelector('.card')).backgroundColor);
        const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
        return [...document.querySelectorAll('.soft, .name, small, th, td, #state, a, h1, h2, footer p')].every((e) => {
            const ink = light(getComputedStyle(e).color); return ratio(ink, ground) >= 4.5 && ratio(ink, card) >= 4.5; });
    })()"""), f"{name}: too pale"
    path = os.path.join(pictures, f"afar-{name}.png")
    browser.picture(path)
    assert os.path.getsize(path) > 20000, f"{name}: an empty picture"
    return browser.evaluate("getComputedStyle(document.body).backgroundColor")


browser = Browser("chromium", folder, patience)
try:
    browser.show(1200, 900, "light")
    browser.call("Page.navigate", url=f"http://{manager}/")
    browser.until("document.body && Number(document.body.dataset.looks) >= 4")
    text = browser.evaluate(TEXT)
    for word in ("one<img src=x", "two<img src=x", "three<img src=x", "moved", "a.long.name", "All is well", "mover", "admin", "dram", "flash"):
        assert word in text, (word, text)
    assert browser.evaluate("document.querySelectorAll('img').length") == 0 and browser.evaluate("document.title") == "Afar"
    # What the mover does is live: numbers, and graphs of them.
    browser.until("[...document.querySelectorAll('.tile .value')].every(e => /^[\\d.]+ ?[A-Za-zµ/]/.test(e.textContent))")
    browser.until("document.querySelectorAll('.tile polyline').length === 4")
    assert browser.evaluate("document.querySelectorAll('#servers tbody tr').length") == 3
    assert browser.evaluate("document.querySelectorAll('#stores tbody tr').length") == 3
    light = look(browser, "desk-light", 1200, 900, "light")
    dark = look(browser, "desk-dark", 1200, 900, "dark")
    assert light != dark
    look(browser, "phone-light", 390, 844, "light")
    look(browser, "phone-dark", 390, 844, "dark")
    look(browser, "phone-small", 320, 568, "light")
    browser.show(1200, 900, "light")

    # An idle cluster does nothing, and that is a number.
    wish("rest")
    browser.until("/^0 ?B\\/s$/.test(document.querySelector('.tile .value').textContent.trim())")

    # A server that is lost, and its store.
    wish("lose")
    browser.until(TEXT + ".includes('is down')")
    browser.until(TEXT + ".includes('attention')")
    browser.until("document.querySelector('#notes .bad') !== null && document.title.startsWith('(')")
    browser.until("[...document.querySelectorAll('#stores tbody tr')].some(e => e.innerText.includes('away'))")
    look(browser, "desk-degraded", 1200, 900, "light")
    look(browser, "phone-degraded", 390, 844, "dark")
    browser.show(1200, 900, "light")

    # A daemon that does not answer; the last figures stay.
    wish("stop")
    browser.until("document.getElementById('state').textContent === 'No answer'")
    assert "moved" in browser.evaluate(TEXT)
    wish("go")
    browser.until("document.getElementById('when').textContent === 'live'")

    # One server's own page.
    browser.call("Page.navigate", url=f"http://{server}/")
    browser.until("document.body && Number(document.body.dataset.looks) >= 2 && document.querySelectorAll('#servers tbody tr').length === 1")
    text = browser.evaluate(TEXT)
    assert "one<img src=x" in text and "Namespaces" not in text and "own view" in text, text

    # It asked nobody else, and nothing went wrong in it.
    asked = {e["params"]["request"]["url"] for e in browser.events if e["method"] == "Network.requestWillBeSent"}
    own = [f"http://{place}/{path}" for place in (manager, server) for path in ("", "status.json")] + ["data:,"]
    assert asked <= set(own), asked
    wrong = [e for e in browser.events if e["method"] == "Runtime.exceptionThrown"
             or (e["method"] == "Log.entryAdded" and e["params"]["entry"]["source"] in ("security", "javascript"))]
    assert not wrong, wrong
finally:
    browser.close()
