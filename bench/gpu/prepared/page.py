"""What was found, as one page of Markdown."""

LONGEST_CELL = 400


def cell(value):
    if isinstance(value, float):
        value = f"{value:.4g}" if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, dict):
        value = ", ".join(f"{key}: {cell(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        value = "; ".join(cell(inner) for inner in value)
    text = str(value).replace("|", "/").replace("\n", " ")
    return text if len(text) <= LONGEST_CELL else text[:LONGEST_CELL] + " …"


def table(rows):
    """Rows of the same columns are one table, in their order."""
    lines, columns = [], None
    for row in rows:
        own = list(row)
        if columns is None or own != columns:
            lines += ["", "| " + " | ".join(own) + " |", "|" + "---|" * len(own)]
            columns = own
        lines.append("| " + " | ".join(cell(row[key]) for key in columns) + " |")
    return lines


def summary(found):
    return [{"step": name, "call": about["call"], "outcome": about["outcome"], "seconds": about["seconds"], "because": about.get("reason", "")}
            for name, about in found["steps"].items()]


def page(found):
    calls = [{"call": call["call"], "began": call["began"], "seconds": call.get("seconds", "was ended"), "devices": call["devices"] or "no device",
              "to repeat": call.get("repeat", "")}
             for call in found["calls"]]
    lines = ["# gpux on this machine", *table(calls), "", "## Parts", *table([{"part": name, "state": state} for name, state in found["parts"].items()]),
             "", "## Steps", *table(summary(found))]
    for name, about in found["steps"].items():
        if not about["rows"] and not about.get("log"):
            continue
        lines += ["", f"## {name}", "", about["question"]]
        if about.get("reason"):
            lines += ["", f"{about['outcome']}: {cell(about['reason'])}"]
        lines += table(about["rows"])
        if about.get("log"):
            lines += ["", "```", *about["log"], "```"]
    return "\n".join(lines) + "\n"
