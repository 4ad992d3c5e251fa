"""Draws the plots of benchmark results: python3 plot.py RESULTS.json FOLDER [SUITE ...]

Each suite of the results may have `plots`, which bench/README.md describes. Run by bench/harness/plots.lua. Writes one
SVG file per plot; the text in the file stays text. Skips plots without data."""

import json
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator  # noqa: E402

SIZE = (7.2, 4.2)
LIO = "#c2410c"
BASELINE = "#6b7280"
OTHERS = ["#1d4ed8", "#0891b2", "#15803d", "#7c3aed", "#be185d", "#a16207", "#334155"]
MARKERS = "osD^vPX*"

plt.rcParams.update({
    "svg.fonttype": "none",
    "svg.hashsalt": "lio",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#9ca3af",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "legend.frameon": False,
})


class Style:
    """Gives each server the same colour and marker in all plots of a suite."""

    def __init__(self, suite):
        self.names = []
        for case in suite["cases"]:
            for one in case["contenders"]:
                name = one.get("series") or one["name"]
                if name not in self.names:
                    self.names.append(name)
        others = [name for name in self.names if name not in ("lio", "baseline")]
        self.colours = {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(others)}
        self.colours.update({"lio": LIO, "baseline": BASELINE})

    def line(self, name):
        """Returns the keyword arguments for drawing a server's line."""
        return {
            "color": self.colours[name],
            "marker": MARKERS[self.names.index(name) % len(MARKERS)],
            "linewidth": 2.4 if name == "lio" else 1.4,
            "linestyle": "--" if name == "baseline" else "-",
            "markersize": 5,
            "zorder": 3 if name == "lio" else 2,
            "label": name,
        }


def shown(value, _=None):
    """Returns a number as a string."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def chosen(suite, names):
    """Returns the cases of a suite with these names, in the order of the names. Skips cases that were not run."""
    by_name = {case["name"]: case for case in suite["cases"]}
    return [by_name[name] for name in names if name in by_name]


def finish(axes, plot, top=None):
    axes.set_title(plot["title"])
    axes.set_ylabel(plot["y"])
    axes.set_ylim(0, top or axes.dataLim.y1 * 1.06)
    axes.yaxis.set_major_formatter(FuncFormatter(shown))
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def horizontal(axes, plot, places):
    """Formats the horizontal axis, with a number at each measured position."""
    if plot.get("logarithmic"):
        # On this scale zero has a position too, one unit to the left of 1.
        axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(places, [shown(x) for x in places])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(plot["x"])


def draw_lines(axes, suite, plot, style):
    """Draws a line for each server over the field `x` of the cases."""
    points = {}
    places = []
    for case in chosen(suite, plot["cases"]):
        for one in case["contenders"]:
            value = one["median"].get(plot["figure"])
            if value is not None:
                points.setdefault(one["name"], []).append((case["x"], value))
                if case["x"] not in places:
                    places.append(case["x"])
    for name, line in points.items():
        axes.plot(*zip(*line), **style.line(name))
    horizontal(axes, plot, sorted(places))
    finish(axes, plot)
    return bool(points)


def draw_series(axes, suite, plot, style):
    """Draws a line for each `series` of one case over the field `x` of its contenders."""
    points = {}
    for case in chosen(suite, [plot["case"]]):
        for one in case["contenders"]:
            value = one["median"].get(plot["figure"])
            if value is not None and one.get("series"):
                points.setdefault(one["series"], []).append((one["x"], value))
    for name, line in points.items():
        axes.plot(*zip(*line), **style.line(name))
    horizontal(axes, plot, sorted({x for line in points.values() for x, _ in line}))
    finish(axes, plot)
    return bool(points)


def draw_bars(axes, suite, plot, style):
    """Draws a group of bars for each case, with a bar for each server. The figures of a bar are stacked."""
    cases = chosen(suite, plot["cases"])
    names = [name for name in style.names
             if any(one["name"] == name and one["median"] for case in cases for one in case["contenders"])]
    width = 0.84 / max(1, len(names))

    def total(one):
        return sum(one["median"].get(figure, 0) for figure in plot["figures"])

    # A very long bar would make all other bars too short, so it is truncated and labelled with its value.
    own = [total(one) for case in cases for one in case["contenders"] if one["name"] == plot.get("scale")]
    top = 2.2 * max(own) if own else None
    for i, name in enumerate(names):
        for place, case in enumerate(cases):
            median = next((one["median"] for one in case["contenders"] if one["name"] == name), {})
            bottom = 0
            for depth, figure in enumerate(plot["figures"]):
                value = median.get(figure, 0)
                axes.bar(place + (i - (len(names) - 1) / 2) * width, value, width * 0.92, bottom=bottom,
                         color=style.colours[name], alpha=1 - 0.55 * depth, linewidth=0)
                bottom += value
            if top and bottom > top:
                axes.annotate(shown(round(bottom)), (place + (i - (len(names) - 1) / 2) * width, top), (0, 3),
                              textcoords="offset points", ha="center", fontsize=8, rotation=90,
                              color=style.colours[name], annotation_clip=False)
        axes.bar(0, 0, color=style.colours[name], label=name)
    axes.set_xticks(range(len(cases)), [case["name"] for case in cases])
    axes.tick_params(axis="x", length=0)
    finish(axes, plot, top)
    axes.set_title(plot["title"], pad=26 if top else None)
    if len(plot["figures"]) > 1:
        words = [f"{figure} ({'full' if depth == 0 else 'light'})" for depth, figure in enumerate(plot["figures"])]
        axes.set_ylabel(plot["y"] + ": " + ", ".join(words))
    return bool(names)


def draw_percentiles(axes, suite, plot, style):
    """Draws a line for each server over the percentiles of one case."""
    drawn = False
    for case in chosen(suite, [plot["case"]]):
        for one in case["contenders"]:
            values = [one["median"].get(figure) for figure in plot["figures"]]
            if None not in values:
                axes.plot(plot["labels"], values, **style.line(one["name"]))
                drawn = True
    axes.set_xlabel("percentile")
    finish(axes, plot)
    if drawn:
        axes.set_yscale("log")
        axes.autoscale(axis="y")
        axes.yaxis.set_major_formatter(FuncFormatter(shown))
        axes.yaxis.set_minor_formatter(NullFormatter())
    return drawn


KINDS = {"lines": draw_lines, "series": draw_series, "bars": draw_bars, "percentiles": draw_percentiles}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        suites = json.load(file)["suites"]
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, suite in suites.items():
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        style = Style(suite)
        for plot in suite.get("plots") or []:
            figure, axes = plt.subplots(figsize=SIZE)
            if KINDS[plot["kind"]](axes, suite, plot, style):
                figure.savefig(os.path.join(sys.argv[2], plot["file"]), bbox_inches="tight",
                               metadata={"Date": None, "Creator": None})
                print(plot["file"])
            plt.close(figure)


if __name__ == "__main__":
    main()
