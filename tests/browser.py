"""Pages in Chromium: the site, by `python -m tests.browser docs/_build/html`, and the explorer in
its test.

A page must fit a screen of 400 px, leave no error in the browser's console, and pass axe-core's
rules about labels, landmarks, contrast and the keyboard.
"""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from tqdm import tqdm

NEEDED = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
NEEDED |= {name: importlib.util.find_spec(name) for name in ("selenium", "axe_core_python")}
MISSING = " and ".join(f"no {name}" for name, found in NEEDED.items() if not found)
ALIKE = {"generated", "_modules", "auto_gallery", "measured"}
"""Folders of the site whose many pages have one template, that of other pages in the last two:
axe-core checks other pages alone.
"""
SOURCES = "_modules"
"""Folder of pages that show source code; the first of them stands for all."""
REFERENCE = "generated"
"""Folder of pages that differ in their articles alone. The first page that is open takes the
articles of the others, but those with formulas, which scripts draw when a page is opened.
"""
FORMULA = 'class="math'
ARTICLE = re.compile(r"<article.*?</article>", re.DOTALL)
TAKE_ARTICLE = "document.querySelector('article').outerHTML = arguments[0]"
ROLES = {"exclude": [[".citation-list"]]}
"""docutils gives bibliographies roles that screen readers know and axe-core does not."""
BROKEN = {"resultTypes": ["violations"]}
"""What axe-core reports: of rules that hold, listing thousands of elements costs more than the check."""

SOUGHT = ("rollout", "error bars")
"""Words that the search of the site has to find."""

PATIENCE = 240
"""Seconds that a page or a script may take: the machine may be busy with something else."""
STARTS = 3


def _started(options):
    """A browser; where the machine is too busy for its start, another one."""
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException

    for attempt in range(STARTS):
        try:
            return webdriver.Chrome(options, webdriver.ChromeService(NEEDED["chromedriver"]))
        except WebDriverException:
            if attempt == STARTS - 1:
                raise


def open_browser(width=400, height=800):
    """Chromium without a window."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = NEEDED["chromium"]
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "SEVERE"})
    browser = _started(options)
    browser.set_page_load_timeout(PATIENCE)
    browser.set_script_timeout(PATIENCE)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", size
    )  # windows are at least 500 px wide
    return browser


def complaints(browser, accessible=True):
    """List of strings: the open page's width if it is over 400 px, errors in the console, broken
    rules of axe-core.
    """
    from axe_core_python.selenium import Axe

    width = browser.execute_script("return document.documentElement.scrollWidth")
    found = [f"{width} px wide"] if width > 400 else []
    found += [entry["message"] for entry in browser.get_log("browser")]
    for rule in Axe().run(browser, ROLES, BROKEN)["violations"] if accessible else ():
        found.append(f"{rule['help']}: {rule['nodes'][0]['html'][:200]}")
    return found


def _show(browser, page, before):
    """Show a page, in that before it where they differ in their articles alone."""
    text = page.read_text(encoding="utf-8")
    alike = page.parent == before.parent and page.parent.name == REFERENCE
    if alike and FORMULA not in text:
        browser.execute_script(TAKE_ARTICLE, ARTICLE.search(text)[0])
    else:
        browser.get(page.as_uri())


def check_site(folder):
    """Complaints about every page of a built site, each with the page; a search that finds nothing
    is one too.
    """
    browser, found = open_browser(), []
    pages = [page for page in sorted(folder.rglob("*.html")) if "_static" not in page.parts]
    of_sources = [page for page in pages if SOURCES in page.parts]
    pages = [page for page in pages if page not in of_sources[1:]]
    before = folder
    for page in tqdm(pages, desc="pages", leave=False):
        _show(browser, page, before)
        before = page
        unlike = ALIKE.isdisjoint(page.relative_to(folder).parts)
        found += [f"{page}: {each}" for each in complaints(browser, unlike)]
    browser.implicitly_wait(PATIENCE)
    for words in SOUGHT:
        browser.get(f"{(folder / 'search.html').as_uri()}?q={words}")
        if not browser.find_elements("css selector", "#search-results li"):
            found.append(f"the search finds nothing for {words}")
    browser.quit()
    return found


if __name__ == "__main__":
    if MISSING:
        print(f"{MISSING}: pages unchecked")
    else:
        sys.exit("\n".join(check_site(Path(sys.argv[1]).resolve())) or None)
