// Small line charts in SVG: one value over time, with axes, gaps for unknown values and marks at new generations.
'use strict';

const CHART_SPAN_MS = 600000;
const SHORTEST_SPAN_MS = 10000;  // of a job that has just begun
const SVG = 'http://www.w3.org/2000/svg';

// Returns two to four round values at equal distances that enclose [least, most], the lowest first.
function ticks(least, most) {
  const wanted = Math.max((most - least) / 3, Math.abs(most) * 1e-3, 1e-12);
  const power = 10 ** Math.floor(Math.log10(wanted));
  for (const factor of [1, 2, 2.5, 5, 10, 20]) {
    const step = factor * power;
    const low = Math.floor(least / step + 1e-9);
    const high = Math.max(low + 1, Math.ceil(most / step - 1e-9));
    if (high - low <= 3) return Array.from({length: high - low + 1}, (_, i) => (low + i) * step);
  }
  return [least, most];
}

class Chart {
  // `show` converts a value to text. `fromZero`: the axis begins at zero, not at the least value.
  constructor(parent, title, show, {fromZero = true} = {}) {
    Object.assign(this, {title, show, fromZero});
    this.points = [];  // {t, v}; v is null if unknown
    this.marks = [];   // times
    this.figure = document.createElement('figure');
    const caption = document.createElement('figcaption');
    const name = document.createElement('span');
    name.textContent = title;
    this.value = document.createElement('output');
    caption.append(name, this.value);
    this.svg = document.createElementNS(SVG, 'svg');
    this.svg.setAttribute('viewBox', '0 0 600 100');
    this.svg.setAttribute('preserveAspectRatio', 'none');
    this.svg.setAttribute('role', 'img');
    this.values = this.axis('values');
    this.times = this.axis('times');
    this.figure.append(caption, this.values, this.svg, this.times);
    parent.append(this.figure);
  }

  // The image's label has the same, so the texts of an axis are for the eye alone.
  axis(kind) {
    const axis = document.createElement('div');
    axis.className = kind;
    axis.setAttribute('aria-hidden', 'true');
    return axis;
  }

  label(axis, texts) {
    while (axis.children.length > texts.length) axis.lastElementChild.remove();
    while (axis.children.length < texts.length) axis.append(document.createElement('span'));
    texts.forEach((text, i) => setText(axis.children[i], text));
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
    const values = known.map((p) => p.v);
    const most = Math.max(...values, this.fromZero || !known.length ? 0 : -Infinity);
    const least = Math.min(...values, this.fromZero || !known.length ? 0 : Infinity);
    const marks = ticks(least, most === least && this.fromZero ? least + 1 : most);
    // The curve begins at the left edge, however short the job has been watched.
    const first = this.points.length ? this.points[0].t : now;
    const span = Math.max(SHORTEST_SPAN_MS, Math.min(CHART_SPAN_MS, now - first));
    const begin = Math.max(first, now - span);
    const x = (t) => (600 * (t - begin) / span).toFixed(1);
    const y = (v) => (98 - 96 * (v - marks[0]) / (marks[marks.length - 1] - marks[0])).toFixed(1);
    const path = document.createElementNS(SVG, 'path');
    path.setAttribute('d', this.path(begin, x, y));
    this.svg.replaceChildren(...marks.map((v) => this.line(0, y(v), 600, y(v))),
        ...this.marks.filter((t) => t > begin).map((t) => this.line(x(t), 2, x(t), 98, 'mark')), path);
    this.label(this.values, known.length ? marks.reverse().map((v) => v === 0 ? '0' : this.show(v)) : []);
    this.label(this.times, now - begin < 1000 ? [] :
        [`${roughly((now - begin) / 1000)} ago`, begin + span > now + 1000 ? '' : 'now']);
    this.svg.setAttribute('aria-label', known.length ?
        `${this.title}: now ${this.value.textContent}, at most ${this.show(most)}` : `${this.title}: unknown`);
  }

  path(begin, x, y) {
    let d = '';
    let pen = 'M';
    for (const p of this.points) {
      if (p.v === null || p.t < begin) {
        pen = 'M';
        continue;
      }
      d += `${pen}${x(p.t)} ${y(p.v)}`;
      pen = 'L';
    }
    return d;
  }
}
