"""Open a page of the site in a browser, and record its state on a wide screen, on a narrow one and in dark mode."""

from dataclasses import dataclass, field

from rlrepro.lab.limits import TookTooLong, limit, overrun

NARROW = 375  # pixels, a telephone
PAGE_SECONDS = 60.0  # for a page to load, and for each action on it


@dataclass
class Visit:
    """The state of a page in a browser: on a wide screen, on a narrow one, and in dark mode."""

    errors: list = field(default_factory=list)  # in the console
    failed: list = field(default_factory=list)
    outside: list = field(default_factory=list)  # requests to other servers
    loaded: list = field(default_factory=list)
    weight: int = 0  # bytes of everything that the page loads
    text: str = ""
    without_alt: list = field(default_factory=list)
    alts: set = field(default_factory=set)
    broken_images: list = field(default_factory=list)
    formulas: int = 0
    links: list = field(default_factory=list)
    anchors: set = field(default_factory=set)
    narrow_width: int = 0
    too_wide: list = field(default_factory=list)  # elements wider than a narrow screen that can't be scrolled
    figures: list = field(default_factory=list)  # on a narrow screen: right edge, smallest text; in pixels
    drawings: int = 0
    inks: list = field(default_factory=list)  # lightness of text in figures and of its background, in dark mode
    contrasts: list = field(default_factory=list)
    barriers: dict = field(default_factory=dict)  # by color scheme: what axe-core calls serious
    wrapped: list = field(default_factory=list)  # code of at most 80 columns that wraps on a wide screen


TOO_WIDE = """all => all.filter(e => {
    if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
    for (let p = e.parentElement; p; p = p.parentElement)
        if (['auto', 'scroll', 'hidden'].includes(getComputedStyle(p).overflowX)) return false;
    return true;
}).map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"""
CONTRAST = """all => all.filter(e => e.textContent.trim()).map(e => {
    const light = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
    let ground = e;
    while (ground && /, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const [ink, paper] = [getComputedStyle(e).color, getComputedStyle(ground || document.body).backgroundColor];
    return Math.abs(light(ink) - light(paper));
})"""
WRAPPED = """all => all.filter(e => {
    const fits = e.textContent.split('\\n').every(line => line.length <= 80);
    e.style.whiteSpace = 'pre';
    const wide = e.scrollWidth > e.clientWidth;
    e.style.whiteSpace = '';
    return fits && wide;
}).map(e => e.textContent.slice(0, 60))"""
FIGURES = """all => all.map(e => [e, e.getBoundingClientRect()]).filter(([_, box]) => box.width).map(([e, box]) =>
    [box.right, Math.min(...[...e.querySelectorAll('text')]
        .map(t => parseFloat(getComputedStyle(t).fontSize) * e.getScreenCTM().a))])"""
INKS = """all => all.map(e => {
    const light = color => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number); return (r + g + b) / 765 };
    let ground = e;
    while (ground && /, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    return [light(getComputedStyle(e).fill), light(getComputedStyle(ground || document.body).backgroundColor)];
})"""
COLORS = ["color-contrast", "link-in-text-block"]  # axe-core's rules that depend on the color scheme
SERIOUS = """options => axe.run({resultTypes: ['violations'], ...options}).then(({violations}) => violations
    .filter(v => ['serious', 'critical'].includes(v.impact))
    .flatMap(v => v.nodes.map(n => v.id + ' ' + n.target.join(' ') + ' ' + n.html.slice(0, 120))))"""
# Of elements without children that have equal tags, classes and styles up to the root, one shows the colors of all.
REMOVE_ALIKE = """() => {
    const seen = new Set(), kinds = new Map([[document, '']]), kind = e => {
        if (!kinds.has(e)) {
            const own = [e.tagName, e.getAttribute('class'), e.getAttribute('style')].join(' ');
            kinds.set(e, kind(e.parentNode) + '>' + own);
        }
        return kinds.get(e);
    };
    const leaves = [...document.body.querySelectorAll('*')].filter(e => !e.children.length && !e.closest('svg'));
    leaves.filter(e => seen.has(kind(e)) || !seen.add(kind(e))).forEach(e => e.remove());
}"""


def open_page(context, site, name, visit=None, until="networkidle"):
    page, visit = context.new_page(), visit or Visit()
    page.on("console", lambda message: visit.errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: visit.errors.append(str(error)))
    page.on("requestfailed", lambda request: visit.failed.append(request.url))
    page.on("response", lambda response: (visit.failed if response.status >= 400 else visit.loaded).append(response))
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else visit.outside.append(request.url),
    )
    from playwright.sync_api import TimeoutError as PageTimeout

    seconds = limit(PAGE_SECONDS)
    page.set_default_timeout(seconds * 1000)
    try:
        page.goto(site + name, wait_until=until)
    except PageTimeout as error:
        raise TookTooLong(overrun(f"loading {site + name} in the browser", seconds)) from error
    return page


def switch_to(page, scheme) -> None:
    """Let the page follow a system that changes its color scheme."""
    page.emulate_media(color_scheme=scheme)
    page.wait_for_function("scheme => document.documentElement.dataset.theme === scheme", arg=scheme)
    page.evaluate("document.getAnimations().forEach(animation => animation.finish())")  # labels fade to their color


def barriers_of(page) -> list:
    """The serious barriers of a page with axe-core's script. Afterwards, one of several elements of a kind is left."""
    barriers = page.evaluate(SERIOUS, {"rules": {name: {"enabled": False} for name in COLORS}})
    page.evaluate(REMOVE_ALIKE)
    return barriers + page.evaluate(SERIOUS, {"runOnly": COLORS})


def visited(browser, site, name, axe) -> Visit:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    visit = Visit()
    page = open_page(context, site, name, visit)
    evaluate_all = page.eval_on_selector_all
    visit.text = page.inner_text("main")
    images = evaluate_all("img", "all => all.map(i => [i.src.slice(0, 90), i.alt, i.complete && i.naturalWidth > 0])")
    visit.without_alt = [source for source, alt, _ in images if not alt.strip()]
    visit.alts = set(evaluate_all(".plot svg", "all => all.map(e => e.getAttribute('aria-label'))"))
    visit.broken_images = [source for source, _, is_loaded in images if not is_loaded]
    visit.formulas = page.locator("main math").count()
    visit.links = evaluate_all("a[href]", "all => all.map(a => a.href)")
    visit.anchors = set(evaluate_all("[id]", "all => all.map(e => e.id)"))
    visit.wrapped = evaluate_all(".bd-article .highlight pre", WRAPPED)
    visit.weight = sum(len(response.body()) for response in visit.loaded)
    page.set_viewport_size({"width": NARROW, "height": 844})
    visit.narrow_width = page.evaluate("document.documentElement.scrollWidth")
    visit.too_wide = evaluate_all(".bd-article *", TOO_WIDE)
    visit.figures, visit.drawings = evaluate_all(".plot svg.narrow", FIGURES), page.locator(".plot svg.drawing").count()
    page.set_viewport_size({"width": 1280, "height": 900})
    switch_to(page, "dark")
    visit.inks = evaluate_all(".plot svg.wide text", INKS)
    visit.contrasts = evaluate_all("main td, main th, main p, main label", CONTRAST)
    switch_to(page, "light")
    page.add_script_tag(path=axe)
    visit.barriers["light"] = barriers_of(page)
    switch_to(page, "dark")
    visit.barriers["dark"] = page.evaluate(SERIOUS, {"runOnly": COLORS})
    context.close()
    return visit
