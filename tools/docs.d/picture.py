"""Draws a recording as one SVG file: CSS shows and hides rows of terminals, light or dark like the reader's system. If
animations are unwanted or unsupported, only the last state is shown. Needs no font and no script."""
from xml.sax.saxutils import escape

SIZE, WIDTH, LINE = 14, 8.4, 19  # per character, in pixels
MARGIN, TITLE = 14, 28
HOLD = 5  # seconds for which the last state stays before the animation restarts
LIGHT = ("#24292f", "#b3261e", "#1a7f37", "#8a5a00", "#0550ae", "#8250df", "#0b7285", "#57606a")
DARK = ("#8b949e", "#ff7b72", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#c9d1d9")


def versions(frames, end):
    """Returns [(row, spans, from, to)] of each row's contents while it is not empty; frames: [(seconds, rows)]."""
    found, standing = [], {}
    for time, rows in [*frames, (end, [])]:
        for y in range(max(len(rows), 1 + max(standing, default=-1))):
            now = rows[y] if y < len(rows) else ()
            before, since = standing.get(y, ((), 0))
            if now != before:
                if before and time > since:
                    found.append((y, before, since, time))
                standing[y] = (now, time)
    return found


def row_text(spans, y):
    parts, column = [], 0
    for text, (hue, bold) in spans:
        kind = " ".join(([f"c{hue % 8}"] if hue is not None else []) + (["b"] if bold else []))
        begin = len(text) - len(text.lstrip(" "))
        if text.strip(" "):
            body = text.strip(" ")
            parts.append(f'<tspan x="{MARGIN + (column + begin) * WIDTH:g}" textLength="{len(body) * WIDTH:g}"'
                         + (f' class="{kind}"' if kind else "") + f">{escape(body)}</tspan>")
        column += len(text)
    return f'y="{y:g}">{"".join(parts)}</text>'


class Animations:
    """Keyframes by name: one for each pair of moments."""

    def __init__(self, end):
        self.end, self.total, self.names = end, end + HOLD, {}

    def of(self, begin, until):
        """Returns the class of an element visible from `begin` until `until`; "" if it always is."""
        if begin <= 0 and until >= self.end:
            return ""
        name = self.names.setdefault((begin, until), f"k{len(self.names)}")
        return name if until >= self.end else f"{name} h"

    def css(self):
        lines = []
        for (begin, until), name in self.names.items():
            steps = (["0%{opacity:0}"] if begin > 0 else []) + [f"{100 * max(begin, 0) / self.total:.2f}%{{opacity:1}}"]
            steps += [f"{100 * until / self.total:.2f}%{{opacity:0}}"] if until < self.end else []
            lines.append(f".{name}{{animation-name:{name}}}@keyframes {name}{{{''.join(steps)}}}")
        return "\n".join(lines)


def style(animations):
    colours = "".join(f".c{i}{{fill:var(--c{i})}}" for i in range(8))
    light = "".join(f"--c{i}:{colour};" for i, colour in enumerate(LIGHT))
    dark = "".join(f"--c{i}:{colour};" for i, colour in enumerate(DARK))
    return f"""svg{{--back:#fff;--bar:#f0f3f6;--edge:#d0d7de;--text:#1f2328;{light}}}
@media (prefers-color-scheme:dark){{svg{{--back:#0d1117;--bar:#161b22;--edge:#30363d;--text:#e6edf3;{dark}}}}}
text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:var(--text);
white-space:pre;animation:{animations.total:g}s step-end infinite}}
.b{{font-weight:bold}}.h{{opacity:0}}.t{{fill:var(--c7)}}{colours}
@media (prefers-reduced-motion:reduce){{text{{animation:none}}}}
{animations.css()}"""


def draw(panes, columns, end, title):
    """Draws panes: [(name, rows, frames)], one below the other."""
    animations, body, top = Animations(end), [], 0
    width = 2 * MARGIN + columns * WIDTH
    for name, rows, frames in panes:
        height = TITLE + rows * LINE + MARGIN
        body.append(f'<rect x=".5" y="{top + .5:g}" width="{width - 1:g}" height="{height - 1:g}" rx="6" fill="var(--back)" '
                    f'stroke="var(--edge)"/><path d="M1 {top + TITLE - 4}h{width - 2:g}" stroke="var(--edge)"/>'
                    f'<text class="t" x="{MARGIN}" y="{top + 17}">{escape(name)}</text>')
        for y, spans, begin, until in versions(frames, end):
            kind = animations.of(begin, until)
            body.append("<text " + (f'class="{kind}" ' if kind else "") + row_text(spans, top + TITLE + y * LINE + SIZE))
        top += height + 8
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{top - 8}" viewBox="0 0 {width:g} {top - 8}" '
            f'role="img"><title>{escape(title)}</title>\n<style>{style(animations)}</style>\n' + "\n".join(body) + "\n</svg>\n")
