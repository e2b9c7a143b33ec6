"""The explorer in a browser: a slider is moved, and the page follows; narrow screens, labels and
the keyboard.
"""

import time

import pytest

import romkit
from tests.browser import MISSING, complaints, open_browser

pytest.importorskip("panel")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

PORT = 5173


@pytest.fixture
def browser():
    from romkit.explorer import explore

    server = explore(romkit.load("ncae-lorenz96"), port=PORT, show=False, threaded=True)
    found = open_browser()
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


FOCUSED = """
let found = document.activeElement;
while (found.shadowRoot && found.shadowRoot.activeElement) found = found.shadowRoot.activeElement;
return found.textContent;
"""
ACTIVE = "return Bokeh.documents[0].roots().find(root => root.tabs).active"


def test_both_tabs_fit_a_narrow_screen_and_can_be_used_without_a_mouse(browser):
    from selenium.webdriver import ActionChains, Keys

    _wait(lambda: browser.execute_script(TEXT))
    assert not complaints(browser)

    def press(key):
        ActionChains(browser).send_keys(key).perform()
        return browser.execute_script(FOCUSED)

    assert any(press(Keys.TAB) == "Your own data" for _ in range(20))
    press(Keys.ENTER)
    _wait(lambda: browser.execute_script(ACTIVE) == 1)
    assert not complaints(browser)
