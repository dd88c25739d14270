// The box on the front page: the same rules as rlrepro/doctor/triage.py, on the same data. Nothing leaves the page.
(() => {
  const data = JSON.parse(document.getElementById("triage-data").textContent);
  const box = document.getElementById("triage-text");
  const answer = document.getElementById("triage-answer");
  const cards = [...document.querySelectorAll(".problem")];
  const list = cards[0].parentElement;
  const end = cards.at(-1).nextSibling;

  const matches = (expression, text) =>
    new RegExp(expression.replace(/@(\w+)/g, (_, name) => `(?:${data.concepts[name]})`), "i").test(text);

  const score = (sign, text) =>
    sign.every((term) => matches(term, text)) ? sign.reduce((sum, term) => sum + (term.startsWith("@") ? 1 : 2), 0) : 0;

  const triage = (raw) => {
    const text = raw.replaceAll("\\", "/").trim().split(/\s+/).join(" ");
    const kinds = matches(data.traceback, text) ? ["errors"] : ["errors", "words"];
    return data.problem
      .map(({ id, signs }) => [Math.max(0, ...kinds.flatMap((kind) => signs[kind].map((sign) => score(sign, text)))), id])
      .filter(([best]) => best)
      .sort((a, b) => b[0] - a[0])
      .slice(0, data.at_most)
      .map(([, id]) => id);
  };

  const show = () => {
    const hasText = box.value.trim() !== "";
    const ids = hasText ? triage(box.value) : [];
    const matching = ids.map((id) => document.querySelector(`.problem-${id}`));
    for (const card of cards) {
      card.hidden = hasText && !matching.includes(card);
      list.insertBefore(card, end);
    }
    for (const card of matching.toReversed()) list.insertBefore(card, list.querySelector(".problem"));
    document.getElementById("triage").classList.toggle("asked", hasText);
    document.getElementById("triage-none").hidden = !hasText || ids.length > 0;
    answer.textContent = !hasText ? "" : ids.length > 1 ? `${ids.length} problems fit, the likeliest first:` : ids.length ? "This fits:" : "";
  };

  box.addEventListener("input", show);
  document.getElementById("triage").hidden = false;
  show(); // a browser may have kept the text of an earlier visit
})();
