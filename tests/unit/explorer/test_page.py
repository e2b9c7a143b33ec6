"""The explorer in a browser: a slider is moved, and the page follows. Needs selenium, and Chromium with its driver."""

import shutil
import time

import pytest

import romkit

pytest.importorskip("panel")
pytest.importorskip("selenium")
chromium = shutil.which("chromium")
pytestmark = pytest.mark.skipif(not (chromium and shutil.which("chromedriver")), reason="no Chromium with its driver")

PORT = 5173


@pytest.fixture
def browser():
    from selenium import webdriver

    from romkit.explorer import explore

    server = explore(romkit.load("ncae-lorenz96"), port=PORT, show=False, threaded=True)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1300,900"):
        options.add_argument(flag)
    found = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    found.get(f"http://127.0.0.1:{PORT}")
    yield found
    found.quit()
    server.stop()


def _wait(found, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("nothing happened")


TEXT = """
const texts = [];
const walk = node => {
  if (node.shadowRoot) walk(node.shadowRoot);
  for (const child of node.childNodes) walk(child);
  if (node.nodeType === 3 && node.textContent.includes('valid for')) texts.push(node.parentNode.parentNode.textContent);
};
walk(document.body);
return texts.join(' ');
"""
RELEASE = """
for (const model of Bokeh.documents[0]._all_models.values())
  if (model.type.includes('Slider') && model.title === arguments[0])
    model.value = arguments[1], model.value_throttled = arguments[1];
"""


def test_a_slider_moves_the_page(browser):
    before = _wait(lambda: browser.execute_script(TEXT))
    titles = "return Bokeh.documents[0].roots().map(r => r.tabs ? r.tabs.map(t => t.title) : [])"
    assert ["Model", "Your own data"] in browser.execute_script(titles)
    picture = browser.get_screenshot_as_png()
    browser.execute_script(RELEASE, "F", 3.14)
    assert _wait(lambda: (text := browser.execute_script(TEXT)) != before and text)
    assert browser.get_screenshot_as_png() != picture
