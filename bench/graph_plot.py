"""Draws the trade-off of engine strata: error over time, circles as large as the memory.

    build/bench_graph strata | python3 bench/graph_plot.py >docs/img/graph-strata.svg
"""
import re
import sys

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 360, 70, 30, 620, 300
COLOURS = ["#1f6f8b", "#c2571a"]


def read(lines):
    """One list of points for each heading: (title, [(dims, ms, bytes, mae)])."""
    runs = []
    for line in lines:
        head = re.match(r"(\d+) x 512, (\d+) classes", line)
        row = re.match(r"\s+(\d+)\s+\d+\s+([\d.]+) \[.*?\]\s+([\d.]+)\s+\|[^|]*\|\s+([\d.]+)", line)
        if head:
            runs.append((f"{int(head[1]):,} samples, {head[2]} classes", []))
        elif row and runs:
            runs[-1][1].append((int(row[1]), float(row[2]), float(row[3]), float(row[4])))
    return [run for run in runs if run[1]]


def main():
    runs = read(sys.stdin)
    if not runs:
        sys.exit("graph_plot: no table of bench_graph strata on standard input")
    most_ms = 1.35 * max(p[1] for _, points in runs for p in points)
    most_error = 1.25 * max(p[3] for _, points in runs for p in points)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="black"/>',
           f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 20}" text-anchor="middle">'
           'CPU ms for a batch of 256</text>',
           f'<text x="16" y="{TOP - 10}">mean error of the score; circles: bytes a sample</text>']

    def place(ms, error):
        return (LEFT + (RIGHT - LEFT) * ms / most_ms, BOTTOM - (BOTTOM - TOP) * error / most_error)

    for i in range(5):
        x, y = place(most_ms * i / 5, most_error * i / 5)
        out.append(f'<text x="{x:.0f}" y="{BOTTOM + 16}" text-anchor="middle">'
                   f'{most_ms * i / 5:.0f}</text>')
        out.append(f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">'
                   f'{most_error * i / 5:.3f}</text>')
    for k, (title, points) in enumerate(runs):
        colour = COLOURS[k % len(COLOURS)]
        out.append(f'<text x="{RIGHT}" y="{TOP + 16 * k + 6}" text-anchor="end" fill="{colour}">'
                   f'{title}</text>')
        for dims, ms, size, error in points:
            x, y = place(ms, error)
            out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{(size / 3) ** 0.5:.1f}" '
                       f'fill="{colour}" fill-opacity="0.5"/>')
            out.append(f'<text x="{x + 9:.1f}" y="{y - 5:.1f}">{dims} dims, {size:.0f} B</text>')
    print("\n".join(out + ["</svg>"]))


main()
