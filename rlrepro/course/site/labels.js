// Accessible names for elements to which the theme gives none, or one that differs from the visible text.
(() => {
  const name = () => {
    const select = (selector) => document.querySelectorAll(selector);
    for (const element of select("summary"))
      if (element.textContent.trim()) element.removeAttribute("aria-label");
      else if (!element.hasAttribute("aria-label")) element.setAttribute("aria-label", "Pages of this section");
    for (const element of select("button.search-button__button[aria-label]")) element.removeAttribute("aria-label");
    for (const element of select("button[aria-label] i[title]")) element.removeAttribute("title");
  };
  name();
  new MutationObserver(name).observe(document.body, { childList: true, subtree: true });
})();
