# SPDX-License-Identifier: Apache-2.0
"""The table: how many mutants each operator made, how they were rejected, and why others survived.

A survivor has one of these labels:
- "equivalent": correct for everything that the task allows
- "outside": wrong only for inputs that no setting of the task passes
- "warned": accepted with a warning that names the mistake; the CUDA manual leaves its effect undefined
- "missed": all others
The share of killed mutants is computed without "equivalent" and "outside".
"""

import collections

COLUMNS = ("finding", "finding and comparison", "comparison", "beyond tolerance", "launch")
_BEYOND = ("exact arithmetic", "small integers", "other orders")


def table(results, labels, key):
    """A Markdown table: a row for each `key` ("family", "operator" or "parent"), then the sums."""
    rows = collections.defaultdict(collections.Counter)
    for result in results:
        for row in (result[key], "all"):
            rows[row][classify(result, labels)] += 1
    order = sorted(row for row in rows if row != "all") + ["all"]
    head = [key, "made", "counted", *COLUMNS, "equivalent", "outside", "warned", "missed", "undecided", "killed"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    for row in order:
        count = rows[row]
        killed = sum(count[column] for column in COLUMNS)
        wrong = killed + count["warned"] + count["missed"] + count["undecided"]
        share = f"{100 * killed / wrong:.1f} %" if wrong else "-"
        made = sum(count.values())
        cells = [row, made, made - count["not_compiled"] - count["same"],
                 *(count[column] for column in (*COLUMNS, "equivalent", "outside", "warned", "missed", "undecided")),
                 share]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def classify(result, labels):
    if result["outcome"] == "killed":
        if result["by"] in _BEYOND:
            return "beyond tolerance"
        return result["by"] if result["by"] in COLUMNS else "launch"
    label = labels.get(result["id"], {}).get("label", "missed")
    if result["outcome"] == "survived" or result["outcome"] == "undecided" and label != "missed":
        return label
    return result["outcome"]


def survivors(results, labels):
    """The mutants that were not killed, with labels. Quotes source only from this repository."""
    out = []
    for result in results:
        if result["outcome"] not in ("survived", "undecided"):
            continue
        label = labels.get(result["id"], {})
        entry = {key: result[key] for key in ("id", "parent", "operator", "line", "outcome")}
        if not result["published"]:
            entry.update(before=result["before"], after=result["after"])
        entry.update(label=label.get("label", "unread"), reason=label.get("reason", ""))
        out.append(entry)
    return out
