// The chart of ten minutes: a line a device, read anew with every push while it is open, zoomed by dragging.
// It stands outside the part that is pushed, so that a push leaves its zoom alone.
import { clock } from "./moments.js";

const HEIGHT = 260;
const GAP_S = 12; // longer without a reading than the slowest pace makes: drawn as a gap
const details = document.getElementById("zoom");
const place = document.getElementById("zoom-chart");
const choice = document.getElementById("zoom-reading");
const none = document.getElementById("zoom-none");
const time = (seconds) => (seconds === null ? "–" : clock(seconds * 1000));
const still = matchMedia("(prefers-reduced-motion: reduce)");
let chart = null;
let drawn = "";
let zoomed = false;
let asking = false;

const colour = (name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

function lines(view, name) {
  return view.devices
    .map((device) => ({ device, reading: device.readings.find((each) => each.name === name) }))
    .filter(({ reading }) => reading && reading.series.some((value) => value !== null));
}

function data(view, found) {
  const end = Date.parse(view.series_end) / 1000;
  const count = found[0].reading.series.length;
  const times = Array.from({ length: count }, (_, at) => end - (count - at) * view.step_s);
  return [times, ...found.map(({ reading }) => reading.series)];
}

function build(view, found) {
  const ink = colour("--ink-3");
  const rule = { stroke: colour("--rule"), width: 1 };
  const axis = { stroke: ink, grid: rule, ticks: rule, font: "11px system-ui, sans-serif" };
  const unit = found[0].reading.unit;
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    cursor: { drag: { x: true, y: false } },
    legend: { live: true },
    hooks: { setSelect: [(made) => { if (made.select.width > 0) zoomed = true; }] },
    axes: [{ ...axis, space: 90, values: (_, splits) => splits.map(time) }, { ...axis, size: 56 }],
    series: [{ label: "Time", value: (_, seconds) => time(seconds) }, ...found.map(({ device }, at) => ({
      label: `${device.model}, ${device.place}`,
      stroke: colour(`--line-${(at % 4) + 1}`),
      width: 1.5,
      gaps: (made, series, from, to, found) => found.filter(([a, b]) => made.posToVal(b, "x", true) - made.posToVal(a, "x", true) > GAP_S),
      dash: at > 3 ? [4, 3] : undefined,
      value: (_, value) => (value === null ? "–" : `${value} ${unit}`),
    }))],
  };
  chart?.destroy();
  chart = new uPlot(options, data(view, found), place);
}

async function show() {
  if (!details.open || asking || typeof uPlot === "undefined") return;
  asking = true;
  try {
    const answer = await fetch(details.dataset.source);
    if (!answer.ok) return;
    const view = await answer.json();
    const found = lines(view, choice.value);
    none.hidden = found.length > 0;
    place.hidden = found.length === 0;
    if (!found.length) return;
    const wanted = [choice.value, document.documentElement.dataset.theme, ...found.map(({ device }) => device.id)].join(" ");
    if (wanted === drawn && chart) chart.setData(data(view, found), !zoomed);
    else { build(view, found); drawn = wanted; zoomed = false; }
  } catch {
    // The next push asks again; the bar tells that the server is away.
  } finally {
    asking = false;
  }
}

const again = () => { drawn = ""; show(); };
details.addEventListener("toggle", show);
choice.addEventListener("change", show);
choice.form.addEventListener("submit", (event) => event.preventDefault());
document.getElementById("zoom-out").addEventListener("click", () => { zoomed = false; show(); });
document.getElementById("stream")?.addEventListener("htmx:sse:after:message", () => { if (!still.matches) show(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
new MutationObserver(again).observe(document.documentElement, { attributeFilter: ["data-theme"] });
new ResizeObserver(() => chart?.setSize({ width: place.clientWidth, height: HEIGHT })).observe(place);
