"""A calculator of GPU memory that works on a static page: it interpolates between plans made in advance."""

import json
from collections.abc import Callable, Iterable
from uuid import uuid4

import torch
from IPython.display import HTML

from rlrepro.evidence.figures import BUGGY, UPSTREAM
from rlrepro.fit import Plan

PRECISIONS = {"float32": torch.float32, "float16": torch.float16}
PAGE = """<div id="__ID__" class="rlrepro-calculator">
<p><label>network <select name="network"></select></label>
<label>precision <select name="precision"></select></label>
<label>GPU memory, GiB
<input name="gib" type="number" min="0.25" step="0.25" value="__GIB__" style="width: 5em"></label></p>
<p><label>samples per gradient step <input name="rows" type="range" step="0.01"></label></p>
<p aria-live="polite"></p><div></div></div>
<script>(() => {
  const plans = __PLANS__, root = document.getElementById("__ID__"), GIB = 2 ** 30;
  const field = Object.fromEntries([...root.querySelectorAll("[name]")].map(control => [control.name, control]));
  const [status, bars] = [root.querySelector("p[aria-live]"), root.lastElementChild];
  const table = () => plans[field.network.value][field.precision.value];
  const interpolate = (points, rows) => {  // piecewise linear
    let i = 1;
    while (i < points.length - 1 && points[i][0] < rows) i++;
    const [[x, y], [x2, y2]] = [points[i - 1], points[i]];
    return y + (y2 - y) * (rows - x) / (x2 - x);
  };
  const largest = limit => {  // rows for which every stage stays within the limit; 0 if there are none
    let low = table().learn[0][0], high = table().learn.at(-1)[0];
    const fits = rows => Object.values(table()).every(points => interpolate(points, rows) <= limit);
    if (!fits(low)) return 0;
    if (fits(high)) return high;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (fits(middle)) low = middle; else high = middle;
    }
    return low;
  };
  const draw = () => {
    const rows = Math.round(2 ** field.rows.value), limit = field.gib.value * GIB, maxRows = largest(limit);
    const needed = Object.entries(table()).map(([name, points]) => [name, interpolate(points, rows)]);
    const failing = needed.find(([, bytes]) => bytes > limit), end = table().learn.at(-1)[0];
    status.textContent = `${rows.toLocaleString("en")} samples: ` +
      (failing ? `${failing[0]} does not fit` : "fits") + ` on ${field.gib.value} GiB. ` +
      (maxRows ? `The largest that fits is ${maxRows === end ? "at least " : ""}${maxRows.toLocaleString("en")}.`
            : "Not even the smallest number of samples fits.");
    const scale = 95 / Math.max(limit, ...needed.map(([, bytes]) => bytes));
    bars.innerHTML = needed.map(([name, bytes]) =>
      `<div>${name}: ${(bytes / GIB).toPrecision(3)} GiB</div><div style="position: relative; height: 1em">` +
      `<div style="width: ${bytes * scale}%; height: 100%; ` +
      `background: ${bytes > limit ? "__BUGGY__" : "__UPSTREAM__"}"></div>` +
      `<div style="position: absolute; top: 0; left: ${limit * scale}%; height: 100%; border-left: 2px dashed"></div>` +
      `</div>`).join("");
  };
  for (const [name, choices] of [["network", plans], ["precision", Object.values(plans)[0]]])
    for (const choice of Object.keys(choices)) field[name].add(new Option(choice));
  const points = table().learn;
  [field.rows.min, field.rows.max, field.rows.value] = [points[0][0], points.at(-1)[0], __ROWS__].map(Math.log2);
  root.addEventListener("input", draw);
  draw();
})()</script>"""


def tables(make_plan: Callable[..., Plan], networks: Iterable[str], rows: Iterable[int]) -> dict:
    """{network: {precision: {stage: [[rows, bytes needed], ...]}}}, from `make_plan(network, dtype)`."""
    plans = {}
    for network in networks:
        plans[network] = {}
        for precision, dtype in PRECISIONS.items():
            planned = make_plan(network, dtype)
            bytes_by_rows = {size: planned.at(batch_size=size).needed for size in rows}
            plans[network][precision] = {
                stage: [[size, by_stage[stage]] for size, by_stage in bytes_by_rows.items()] for stage in planned.stages
            }
    return plans


def calculator(plans: dict, *, gib: float = 8, rows: int = 256) -> HTML:
    """The calculator, set to a GPU of `gib` GiB and minibatches of `rows`. It interpolates between the plans."""
    values = {"id": f"calculator-{uuid4().hex}", "plans": json.dumps(plans), "gib": f"{gib:g}", "rows": str(rows)}
    page = PAGE
    for name, value in {**values, "buggy": BUGGY, "upstream": UPSTREAM}.items():
        page = page.replace(f"__{name.upper()}__", value)
    return HTML(page)
