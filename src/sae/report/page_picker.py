"""The part of a page on which a reader sets limits and weights, and compares two networks."""

from html import escape

from sae.report.picker import Measure, Picker


def render_picker(picker: Picker) -> str:
    """Render inputs for limits, weights, methods and a preference; the page's script fills and reads them."""
    name = escape(picker.name)
    limits = "\n".join(_limit(name, index, item) for index, item in enumerate(picker.measures))
    weights = "\n".join(_weight(name, index, item) for index, item in enumerate(picker.measures) if item.is_compared)
    methods = "\n".join(
        f'<label><input type="checkbox" name="method" value="{escape(method)}" checked> {escape(method)}</label>'
        for method in picker.methods
    )
    options = "\n".join(
        f'<option value="{escape(item.objective.name)}">best {escape(item.objective.label)}</option>'
        for item in picker.measures
    )
    return f"""<div class="picker half needs-script" data-picker="{name}">
<form aria-labelledby="picker-{name}">
<h3 id="picker-{name}">What are your limits?</h3>
<div class="limits">
{limits}
</div>
<details class="choices">
<summary>Weights, methods and preference</summary>
<fieldset class="weights"><legend>Weight in the compromise</legend>
{weights}
</fieldset>
<fieldset class="methods"><legend>Methods</legend>
{methods}
</fieldset>
<label class="prefer">Pick the <select><option value="">best compromise</option>
{options}
</select></label>
</details>
<p class="status" role="status"></p>
<button type="button" class="reset more" hidden>Back to the study's pick</button>
</form>
<details class="compare">
<summary>Compare two networks</summary>
<div class="pair">
<label>First <input list="networks-{name}" autocomplete="off" spellcheck="false"></label>
<label>Second <input list="networks-{name}" autocomplete="off" spellcheck="false"></label>
</div>
<datalist id="networks-{name}"></datalist>
<p class="hint">Or click the name in a row of a table, or a mark in a figure and then <em>Compare</em>.</p>
<div class="compared-pair"></div>
</details>
</div>"""


def _limit(name: str, index: int, item: Measure) -> str:
    """Render a slider and a number for the limit that matters: the most of what should be little, and the reverse."""
    side, word = ("min", "at least") if item.objective.quantity.maximise else ("max", "at most")
    title = escape(str(item.to_json()["title"]))
    label = f"limit-{name}-{index}"
    return f"""<div class="limit" data-measure="{index}" data-side="{side}">
<label for="{label}">{title} {word}</label>
<input type="range" aria-label="{title} {word}, slider">
<input type="number" id="{label}" step="any" placeholder="any" inputmode="decimal">
</div>"""


def _weight(name: str, index: int, item: Measure) -> str:
    label = f"weight-{name}-{index}"
    return f"""<div class="weight" data-measure="{index}">
<label for="{label}">{escape(item.objective.label)}</label>
<input type="range" id="{label}" min="0" max="4" step="0.5" value="1"><output for="{label}">1</output>
</div>"""
