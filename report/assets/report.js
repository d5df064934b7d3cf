// Draws the charts that the page's data name.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  if (typeof Chart === "undefined") {
    for (const canvas of document.querySelectorAll("canvas")) {
      canvas.replaceWith(document.createTextNode("mtreport was built without Chart.js: the figures are in the tables below"));
    }
    return;
  }
  mtCharts.drawAll(charts);
})();
