"""The explorer in a browser: a slider is moved, and the page follows; narrow screens, labels and
the keyboard.
"""

import time

import pytest

import romkit
from tests.browser import MISSING, PATIENCE, complaints, open_browser

pytest.importorskip("panel")
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture(scope="module")
def server():
    from romkit.explorer import explore
    from romkit.explorer.page import _free_port

    port = _free_port()
    with pytest.MonkeyPatch.context() as patch:
        # a rough diagram: the page is what is tested
        patch.setattr("romkit.explorer.exploration.BRANCH", 9)
        server = explore(romkit.load("ncae-lorenz96"), port=port, show=False, threaded=True)
        yield f"http://127.0.0.1:{port}"
        server.stop()


@pytest.fixture(scope="module")
def chromium():
    browser = open_browser()
    yield browser
    browser.quit()


@pytest.fixture
def browser(chromium, server):
    """The page as it opens: each visit is a session of its own."""
    chromium.get(server)
    return chromium


def _wait(happened):
    """What happened, as soon as it has."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if value := happened():
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
    # texts may come before the browser has drawn
    assert _wait(lambda: browser.get_screenshot_as_png() != picture)
    assert _wait(lambda: browser.execute_script(SPOKEN) == "F 3.14")


WITHIN = """
const within = (root, selector) => [...root.querySelectorAll("*")].flatMap(element => {
    if (element.matches(selector)) return [element];
    return element.shadowRoot ? within(element.shadowRoot, selector) : [];
});
"""
SPOKEN = WITHIN + "return within(document, '.noUi-handle')[0]?.getAttribute('aria-valuetext')"
DROP = """
const files = new DataTransfer();
files.items.add(new File(["no netCDF"], "mine.nc"));
document.dispatchEvent(new DragEvent("drop", {dataTransfer: files, cancelable: true}));
"""
INPUT = WITHIN + "return within(document, 'input[type=file]').length"


def test_a_dropped_file_is_chosen(browser):
    _wait(lambda: browser.execute_script(TEXT))
    browser.execute_script("Bokeh.documents[0].roots().find(root => root.tabs).active = 1")
    _wait(lambda: browser.execute_script(INPUT))
    browser.execute_script(DROP)
    chosen = WITHIN + "return within(document, 'input[type=file]')[0].files[0]?.name"
    assert browser.execute_script(chosen) == "mine.nc"


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
