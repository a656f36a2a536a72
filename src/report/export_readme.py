# Writes the README of an exported package: how to use it, what was verified, what was measured.
# SPDX-License-Identifier: Apache-2.0
from export_signature import needs_constants
from export_text import argument_list, docstring

ROWS, COLUMNS = 40, 8  # at most, in the table of a record
LONGEST = 600  # characters of a remark


def plain(text):
    """One line that Markdown does not interpret."""
    line = " ".join(str(text).split())
    line = line if len(line) <= LONGEST else line[:LONGEST - 1] + "…"
    return "".join("\\" + c if c in "\\`*_[]<>|#" else c for c in line if c.isprintable())


def number(value):
    if isinstance(value, float):
        return "%.4g" % value
    return plain(value)


def flat(value, prefix=""):
    """The scalars of nested objects, with dotted names."""
    found = {}
    for key, item in value.items():
        if isinstance(item, dict):
            found.update(flat(item, prefix + key + "."))
        elif isinstance(item, (str, int, float, bool)) and item != "":
            found[prefix + key] = item
    return found


def table(rows):
    """A list of objects as a Markdown table."""
    rows = [flat(r) for r in rows if isinstance(r, dict)]
    names = []
    for row in rows:
        names += [n for n in row if n not in names]
    names = names[:COLUMNS]
    if not names:
        return []
    lines = ["| %s |" % " | ".join(plain(n) for n in names), "|%s" % ("---|" * len(names))]
    for row in rows[:ROWS]:
        lines.append("| %s |" % " | ".join(number(row.get(n, "")) for n in names))
    if len(rows) > ROWS:
        lines.append("")
        lines.append("and %d more in record.json" % (len(rows) - ROWS))
    return lines


def record_text(spec):
    record = spec["record"]
    if record is None:
        return ["Not measured."]
    lines = ["From %s (`%s`), included in this package as `record.json`%s." % (
        plain(spec["record_name"]), plain(record.get("schema", "")), spec["record_note"]), ""]
    for key, value in flat({k: v for k, v in record.items() if not isinstance(v, dict)}).items():
        lines.append("- %s: %s" % (plain(key), number(value)))
    for key, value in record.items():
        rows = table(value) if isinstance(value, list) else []
        if rows:
            lines += ["", "%s:" % plain(key), ""] + rows
    return lines


def verdict_text(part, direction):
    verdict = part["verdict"]
    decision = verdict.get("verdict", "")
    lines = ["**%s: %s** by cupel %s on %s, seed %s, trials per setting: %s." % (
        direction.capitalize(), plain(decision), plain(verdict.get("versions", {}).get("cupel", "")),
        plain(verdict.get("device", "")), plain(verdict.get("seed", "")), plain(verdict.get("trials", "")))]
    if verdict.get("declared"):
        lines += ["", "The kernel declares what it supports: %s." % plain(verdict["declared"])]
    lines += limits(verdict)
    if decision != "accepted":
        lines.append("")
        lines.append("This kernel was **not** accepted; it was exported because `--force` was given.")
    for reason in verdict.get("reasons", [])[:10]:
        lines.append("- %s: %s (%s)" % (plain(reason.get("code", "")), plain(reason.get("message", "")),
                                        plain(reason.get("where", ""))))
    lines += ["", "| setting | status | largest error, as a share of the limit |", "|---|---|---|"]
    for setting in verdict.get("settings", []):
        error = setting.get("largest_error", {})
        share = max(error.get("rms_over_limit") or 0, error.get("max_over_limit") or 0)
        what = "%s (%s)" % (setting.get("id", ""), setting.get("description", ""))
        if setting.get("reduced"):
            what += ", smaller: %s" % setting["reduced"]
        lines.append("| %s | %s | %.2g |" % (plain(what), plain(setting.get("status", "")), share))
    lines += [""] + remarks(verdict)
    return lines + ["Source SHA-256: `%s`" % plain(verdict.get("source_sha256", "")), ""]


def limits(verdict):
    """What the kernel cannot do."""
    sizes = verdict.get("exploration", {}).get("limits", [])
    lines = ["- limit: %s" % plain(limit.get("message", "")) for limit in sizes]
    lines += ["- %s" % plain(note) for note in verdict.get("notes", []) if note.startswith("limit: ")]
    return [""] + lines if lines else []


def remarks(verdict):
    """Other remarks, and what the verdict does not say."""
    lines = ["- %s" % plain(note) for note in verdict.get("notes", []) if not note.startswith("limit: ")]
    lines += ["- Not checked: %s" % plain(what) for what in verdict.get("not_checked", [])]
    if any(s.get("reduced") for s in verdict.get("settings", [])):
        lines.append("- Not tested by this package either: the task's own sizes, where the table "
                     "has smaller ones")
    return lines + [""] if lines else []


def gradients_text(spec, backward):
    if not backward:
        return ["There is no backward kernel, so a backward pass through the operator raises an error."]
    text = "Gradients come from `csrc/backward.cu`."
    part = spec["wiring"]["backward"]
    if needs_constants(part):
        text += (" It needs tensors that the task's model computes from the arguments. They are computed once more, "
                 "with PyTorch, in every training step. The times below do not include it.")
    elif part["recompute"]:
        text += (" It needs tensors that the task's autograd function computes. Therefore that function's "
                 "forward runs once more in every training step. The times below do not include it.")
    return [text]


def readme(spec, forward, defaults, backward):
    name = spec["name"]
    lines = ["# %s" % name, "", plain(spec["task"]["title"]), "",
             "A CUDA kernel for the task `%s` as a PyTorch operator (2.4 or later), exported by cupel "
             "%s." % (docstring(spec["task"]["name"]), plain(spec["version"])), "", "```sh",
             "python -m pip install --no-build-isolation .  # needs nvcc, and a PyTorch that is built with CUDA",
             "python -m %s.test  # needs a CUDA GPU" % name,
             "```", "", "```python", "import %s" % name, "",
             "result = %s.forward(%s)" % (name, argument_list(forward.names, defaults)), "```", "",
             "The operator is `torch.ops.%s.forward`, with the schema" % name, "",
             "    %s" % forward.schema(), "",
             "It works with `torch.compile(fullgraph=True)`. Inputs that were dense when the kernel was "
             "judged are made dense. Inputs of other types than those judged raise a TypeError. Only the "
             "shapes below were tested.", ""]
    lines += gradients_text(spec, backward) + ["", "## What was verified", ""]
    for direction in ("forward", "backward"):
        if spec[direction]:
            lines += verdict_text(spec[direction], direction)
    lines += ["## What was measured", ""] + record_text(spec)
    if spec["include_roots"]:
        lines += ["", "The kernel includes headers of %s, which are not part of this package." %
                  ", ".join(plain(r) for r in spec["include_roots"])]
    return "\n".join(lines) + "\n"
