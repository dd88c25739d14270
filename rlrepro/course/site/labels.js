// Names for what the theme leaves without one, or with one that differs from the text that is shown.
(() => {
  const name = () => {
    const all = (selector) => document.querySelectorAll(selector);
    for (const each of all("summary"))
      if (each.textContent.trim()) each.removeAttribute("aria-label");
      else if (!each.hasAttribute("aria-label")) each.setAttribute("aria-label", "Pages of this section");
    for (const each of all("button.search-button__button[aria-label]")) each.removeAttribute("aria-label");
    for (const each of all("button[aria-label] i[title]")) each.removeAttribute("title");
  };
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
})();
