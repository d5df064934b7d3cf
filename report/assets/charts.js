// Line charts of runs over steps by Chart.js, in the page's colours, light or dark. A chart is
// {id, y, series: [{name, points: [[x, y], ...], low?, high?, dashed?, stepped?, dots?}], marks: [[x, text], ...]}.
"use strict";
const mtCharts = (() => {
  const hues = ["#2f7de1", "#e0772c", "#2fa36b", "#b65fd0", "#d1495b", "#8a8f2a", "#2aa5b8", "#7d6bdc"];
  const darkHues = ["#6cb0ff", "#ffa45e", "#5fd39b", "#d99bf0", "#ff8fa0", "#cfd36a", "#67d5e6", "#b1a4ff"];
  const drawn = [];
  let printing = false;

  const colours = () => {
    const dark = !printing && matchMedia("(prefers-color-scheme: dark)").matches;
    return dark ? { ink: "#e4e9ee", soft: "#9aa7b4", line: "#303943", hues: darkHues }
                : { ink: "#1f2933", soft: "#5b6875", line: "#d8dee4", hues };
  };
  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
    if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
    return `${+value.toPrecision(4)}`;
  };

  // Vertical lines mark changes of the membership; the tooltip of the nearest point shows their text.
  const marks = {
    id: "marks",
    beforeDatasetsDraw(chart) {
      const { ctx, chartArea: area, scales: { x } } = chart;
      ctx.save();
      ctx.strokeStyle = colours().soft;
      ctx.setLineDash([3, 3]);
      for (const [at] of chart.options.marks || []) {
        const left = x.getPixelForValue(at);
        if (left < area.left || left > area.right) continue;
        ctx.beginPath();
        ctx.moveTo(left, area.top);
        ctx.lineTo(left, area.bottom);
        ctx.stroke();
      }
      ctx.restore();
    },
  };

  const pairs = (points) => points.map(([x, y]) => ({ x, y }));
  const datasets = (chart, scheme) => chart.series.flatMap((series, i) => {
    const colour = scheme.hues[(series.colour ?? i) % scheme.hues.length];
    const all = [];
    if (series.low) {
      const band = { borderWidth: 0, pointRadius: 0, backgroundColor: `${colour}2e`, band: true };
      all.push({ ...band, label: `${series.name} low`, data: pairs(series.low) });
      all.push({ ...band, label: `${series.name} high`, data: pairs(series.high), fill: "-1" });
    }
    all.push({
      label: series.name, data: pairs(series.points), borderColor: colour, backgroundColor: colour, borderWidth: 1.8,
      borderDash: series.dashed ? [6, 4] : [], stepped: series.stepped || false, tension: 0,
      pointRadius: series.dots || series.points.length < 2 ? 3 : 0, pointHitRadius: 6,
    });
    return all;
  });

  const draw = (chart) => {
    const canvas = document.getElementById(chart.id);
    if (!canvas) return;
    const scheme = colours();
    const axis = { ticks: { color: scheme.soft, maxRotation: 0 }, grid: { color: scheme.line } };
    drawn.push(new Chart(canvas, {
      type: "line",
      data: { datasets: datasets(chart, scheme) },
      plugins: [marks],
      options: {
        animation: false, responsive: true, maintainAspectRatio: false, normalized: true, parsing: false,
        marks: chart.marks, interaction: { mode: "nearest", axis: "x", intersect: false },
        scales: {
          x: { ...axis, type: "linear", min: chart.from, max: chart.to, ticks: { ...axis.ticks, callback: short, maxTicksLimit: 8 },
               title: { display: true, text: chart.x || "step", color: scheme.soft } },
          y: { ...axis, beginAtZero: chart.zero || false, suggestedMax: chart.top,
               ticks: { ...axis.ticks, callback: short, maxTicksLimit: 7, ...(chart.whole ? { precision: 0 } : {}) },
               title: { display: true, text: chart.y, color: scheme.soft } },
        },
        plugins: {
          legend: { display: chart.series.length > 1, labels: {
            color: scheme.ink, boxWidth: 18, boxHeight: 2, filter: (item, data) => !data.datasets[item.datasetIndex].band } },
          tooltip: {
            filter: (item) => !item.dataset.band,
            callbacks: {
              title: (items) => items.length ? `${chart.x || "step"} ${items[0].parsed.x}` : "",
              label: (item) => `${item.dataset.label}: ${+item.parsed.y.toPrecision(6)}`,
              afterBody: (items) => {
                if (!items.length) return [];
                const width = (items[0].chart.scales.x.max - items[0].chart.scales.x.min) / 60;
                return (chart.marks || []).filter(([x]) => Math.abs(x - items[0].parsed.x) < width).map(([, text]) => text);
              },
            },
          },
        },
      },
    }));
  };

  const drawAll = (charts) => {
    const again = () => {
      while (drawn.length) drawn.pop().destroy();
      charts.forEach(draw);
    };
    again();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    addEventListener("beforeprint", () => { printing = true; again(); });
    addEventListener("afterprint", () => { printing = false; again(); });
  };
  return { drawAll };
})();
