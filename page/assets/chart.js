// Small line charts in SVG: one value over time, with gaps for unknown values and marks at new generations.
'use strict';

const CHART_SPAN_MS = 600000;
const SVG = 'http://www.w3.org/2000/svg';

class Chart {
  // `show` converts a value to text.
  constructor(parent, title, show) {
    this.show = show;
    this.points = [];  // {t, v}; v is null if unknown
    this.marks = [];   // times
    this.figure = document.createElement('figure');
    const caption = document.createElement('figcaption');
    const name = document.createElement('span');
    name.textContent = title;
    this.value = document.createElement('output');
    caption.append(name, this.value);
    this.svg = document.createElementNS(SVG, 'svg');
    this.svg.setAttribute('viewBox', '0 0 600 84');
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.svg.setAttribute('role', 'img');
    this.title = title;
    this.figure.append(caption, this.svg);
    parent.append(this.figure);
  }

  clear() {
    this.points = [];
    this.marks = [];
  }

  add(t, v) {
    this.points.push({t, v: Number.isFinite(v) ? v : null});
    while (this.points.length && this.points[0].t < t - CHART_SPAN_MS) this.points.shift();
  }

  known() {
    return this.points.some((p) => p.v !== null);
  }

  mark(t) {
    this.marks.push(t);
  }

  line(x1, y1, x2, y2, kind) {
    const line = document.createElementNS(SVG, 'line');
    for (const [name, value] of Object.entries({x1, y1, x2, y2})) line.setAttribute(name, value);
    if (kind) line.setAttribute('class', kind);
    return line;
  }

  draw(now) {
    const known = this.points.filter((p) => p.v !== null);
    const last = this.points[this.points.length - 1];
    this.value.textContent = last && last.v !== null ? this.show(last.v) : 'unknown';
    const most = Math.max(...known.map((p) => p.v), 0) || 1;
    // If a job has just begun, its first minute fills the width.
    const first = this.points.length ? this.points[0].t : now;
    const span = Math.min(CHART_SPAN_MS, Math.max(60000, now - first));
    const x = (t) => (600 * (1 - (now - t) / span)).toFixed(1);
    const y = (v) => (80 - 74 * v / most).toFixed(1);
    let d = '';
    let pen = 'M';
    for (const p of this.points) {
      if (p.v === null || p.t < now - span) {
        pen = 'M';
        continue;
      }
      d += `${pen}${x(p.t)} ${y(p.v)}`;
      pen = 'L';
    }
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', d);
    const marks = this.marks.filter((t) => t > now - span).map((t) => this.line(x(t), 4, x(t), 80, 'mark'));
    this.svg.replaceChildren(this.line(0, 80, 600, 80), ...marks, path);
    this.svg.setAttribute('aria-label', known.length ?
        `${this.title}: now ${this.value.textContent}, at most ${this.show(most)}` : `${this.title}: unknown`);
  }
}
