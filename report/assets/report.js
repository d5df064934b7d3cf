// Draws the charts that the page's data name.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  if (typeof Chart === "undefined") {
    for (const canvas of document.querySelectorAll("canvas")) {
      canvas.replaceWith(document.createTextNode("no Chart.js was built into mtreport: the tables below have the figures"));
    }
    return;
  }
  mtCharts.drawAll(charts);
})();
