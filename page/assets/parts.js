// Formats values and updates the document. Text from others is only ever set as textContent, never as HTML.
'use strict';

const byId = (id) => document.getElementById(id);

// ---- text of values

function seconds(value) {
  if (value === null || value === undefined) return '-';
  if (value < 0.001) return `${Math.round(value * 1e6)} \u00b5s`;
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`;
  if (value < 60) return `${value.toPrecision(3)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${String(Math.floor(value % 60)).padStart(2, '0')} s`;
  return `${Math.floor(value / 3600)} h ${String(Math.floor(value / 60 % 60)).padStart(2, '0')} min`;
}

// For an estimate: one or two units, without fractions.
function roughly(value) {
  if (value < 90) return `${Math.max(1, Math.round(value))} s`;
  if (value < 5400) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${Math.floor(value / 3600)} h ${Math.round(value / 60 % 60)} min`;
  return `${Math.round(value / 86400)} days`;
}

function bytes(value) {
  if (value === null || value === undefined) return '-';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toPrecision(3)} ${units[unit]}`;
}

const number = (value, digits = 0) => value === null || value === undefined ? '-' :
    value.toLocaleString('en', {maximumFractionDigits: digits});
const fourDigits = (value) => String(Number(value.toPrecision(4)));
const busy = (value) => value === null || value === undefined ? '-' : value.toFixed(2);

function gpuText(gpus) {
  if (!gpus.length) return 'unknown';
  return gpus.map((gpu) => [
    gpu.busy_percent === null ? '?' : `${gpu.busy_percent} %`,
    `${bytes(gpu.memory_bytes)} of ${bytes(gpu.memory_total_bytes)}`,
    gpu.temperature_c === null ? '' : `${gpu.temperature_c} \u00b0C`].filter(Boolean).join(', ')).join('; ');
}

function ranksText(node) {
  if (node.first_rank === null) return '-';
  return node.workers === 1 ? `${node.first_rank}` : `${node.first_rank}\u2013${node.first_rank + node.workers - 1}`;
}

// ---- updates of the document, only where it has changed

function setText(element, text) {
  if (element.shown === text) return;
  element.shown = text;
  element.textContent = text;
}

function button(label, action, danger) {
  const made = document.createElement('button');
  made.type = 'button';
  made.textContent = label;
  if (danger) made.className = 'danger';
  made.addEventListener('click', action);
  return made;
}

// Makes the rows of `body` match `items`, in order; `make` fills a new row with cells, `fill` sets its texts.
function rows(body, items, key, make, fill) {
  const old = new Map();
  for (const row of body.children) old.set(row.dataset.key, row);
  let place = body.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let row = old.get(name);
    if (row) {
      old.delete(name);
    } else {
      row = document.createElement('tr');
      row.dataset.key = name;
      make(row, item);
    }
    fill(row, item);
    if (row === place) place = place.nextElementSibling;
    else body.insertBefore(row, place);
  }
  for (const row of old.values()) row.remove();
}

function cells(row, count) {
  for (let i = 0; i < count; ++i) row.append(document.createElement('td'));
  row.parts = [...row.cells];
}
