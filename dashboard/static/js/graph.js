// The whole graph on a canvas: one request, positions from the server, colours from the style sheet's tokens.
// A push adds what is new; a node that stands is never moved.
const COLUMN_PX = 150;
const ROW_PX = 26;
const MOST_LABELS_ZOOM = 8;

const canvas = document.getElementById("canvas");
const told = document.getElementById("canvas-told");

// `light-dark()` is resolved by the browser alone: a probe's colour is asked for.
function colours(element) {
  const probe = document.createElement("span");
  element.append(probe);
  const found = {};
  for (const name of ["ink", "edge", "finding", "hypothesis", "experiment", "other", "against"]) {
    probe.className = `probe-${name}`;
    probe.style.color = `var(--graph-${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

function style(element) {
  const c = colours(element);
  const font = getComputedStyle(document.body).fontFamily;
  return [
    { selector: "node", style: { width: 10, height: 10, "background-color": c.other, shape: "rectangle", label: "data(id)", color: c.ink, "font-size": 10, "font-family": font, "min-zoomed-font-size": MOST_LABELS_ZOOM, "text-valign": "center", "text-halign": "right", "text-margin-x": 4 } },
    { selector: "node[kind='finding']", style: { "background-color": c.finding } },
    { selector: "node[kind='hypothesis']", style: { shape: "ellipse", "background-color": c.hypothesis } },
    { selector: "node[kind='experiment']", style: { shape: "diamond", "background-color": c.experiment } },
    { selector: "edge", style: { width: 1, "line-color": c.edge, "curve-style": "haystack", opacity: 0.6 } },
    { selector: "edge[relation='refutes'], edge[relation='contradicts']", style: { "line-color": c.against, "line-style": "dashed", opacity: 1 } },
    { selector: "node:active", style: { "overlay-opacity": 0 } },
  ];
}

function elements({ nodes, edges }, known) {
  const found = [];
  for (const [id, kind, title, state, column, row] of nodes) {
    if (!known(id)) found.push({ group: "nodes", data: { id, kind, title, state }, position: { x: column * COLUMN_PX, y: row * ROW_PX }, grabbable: false });
  }
  for (const [source, target, relation] of edges) {
    const id = `${nodes[source][0]}>${nodes[target][0]}>${relation}`;
    if (!known(id)) found.push({ group: "edges", data: { id, source: nodes[source][0], target: nodes[target][0], relation } });
  }
  return found;
}

async function ask() {
  const answer = await fetch(canvas.dataset.graph);
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.json();
}

async function show() {
  const began = performance.now();
  const data = await ask();
  const cy = cytoscape({
    container: canvas,
    elements: elements(data, () => false),
    style: style(canvas),
    layout: { name: "preset", fit: true, padding: 24 },
    textureOnViewport: true,
    hideEdgesOnViewport: true,
    autoungrabify: true,
    boxSelectionEnabled: false,
    minZoom: 0.02,
    maxZoom: 3,
    pixelRatio: 1,
  });
  cy.on("tap", "node", (event) => { location.href = `/knowledge?${new URLSearchParams({ node: event.target.id() })}`; });
  cy.on("mouseover", "node", (event) => { canvas.title = `${event.target.id()}: ${event.target.data("title")}`; });
  cy.on("mouseout", "node", () => { canvas.title = ""; });
  const say = () => { told.textContent = `${cy.nodes().length.toLocaleString("en")} nodes, ${cy.edges().length.toLocaleString("en")} relations. A layer for each generation, a lane for each lever.`; };
  cy.one("render", () => { canvas.dataset.shownMs = String(Math.round(performance.now() - began)); });
  say();
  const restyle = () => cy.style(style(canvas));
  new MutationObserver(restyle).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  document.getElementById("stream")?.addEventListener("htmx:sse:after:message", async () => {
    const added = elements(await ask(), (id) => cy.getElementById(id).nonempty());
    if (added.length) { cy.add(added); say(); }
  });
  canvas.graph = cy;
}

if (canvas && window.cytoscape) {
  show().catch((error) => { told.textContent = `The graph could not be drawn: ${error.message} Reload the page to try again.`; });
}
