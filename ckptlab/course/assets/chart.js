// The curves of a sketch, over a few points that stand at equal distances. Every curve
// has its own dash, its own mark and its name beside its end: colour is never alone.

const CURVES = {
  measured: { color: "#0072B2", dash: "", mark: "square" },
  "your sketch": { color: "#D55E00", dash: "6 4", mark: "circle" },
  "second try": { color: "#009E73", dash: "2 3", mark: "circle" },
};
const PLAIN = { color: "#8C8C8C", dash: "2 4", mark: "circle" };

function svg(tag, attributes, text = "") {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.textContent = text;
  return node;
}

function drawChart({ xLabel, yLabel, at, ends, curves }, label) {
  const [left, right, top, bottom] = [96, 404, 14, 170];
  const x = (place) => left + ((right - left) * place) / (at.length - 1);
  const y = (share) => bottom - (bottom - top) * share;
  const chart = svg("svg", { viewBox: "0 0 560 206", class: "ckptlab-chart", role: "img", "aria-label": label, "font-size": 14, fill: "currentColor" });
  chart.append(svg("path", { d: `M${left} ${top}V${bottom}H${right}`, fill: "none", stroke: "currentColor" }));
  chart.append(svg("text", { x: left - 8, y: bottom + 4, "text-anchor": "end" }, ends[0]));
  chart.append(svg("text", { x: left - 8, y: top + 8, "text-anchor": "end" }, ends[1]));
  at.forEach((text, place) => chart.append(svg("text", { x: x(place), y: bottom + 22, "text-anchor": "middle" }, text)));
  const heights = [];
  for (const { name, shares } of curves) {
    const { color, dash, mark } = CURVES[name] ?? PLAIN;
    const points = shares.map((share, place) => [x(place), y(share)]);
    const line = points.map((point) => point.join(",")).join(" ");
    chart.append(svg("polyline", { points: line, fill: "none", stroke: color, "stroke-width": 2.5, "stroke-dasharray": dash }));
    for (const [cx, cy] of points) {
      const shape = mark === "square" ? { x: cx - 5, y: cy - 5, width: 10, height: 10 } : { cx, cy, r: 5 };
      chart.append(svg(mark === "square" ? "rect" : "circle", { ...shape, fill: color }));
    }
    let height = points[points.length - 1][1] + 5;
    while (heights.some((other) => Math.abs(other - height) < 22)) height += 22;
    heights.push(height);
    chart.append(svg("text", { x: right + 12, y: height }, name));
  }
  // names of the axes may be long, and text in a page breaks into lines
  const names = [yLabel, xLabel].map((text) => create("p", { className: "ckptlab-axis", textContent: text }));
  return create("div", {}, names[0], chart, names[1]);
}
