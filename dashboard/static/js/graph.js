// The whole graph on a canvas: one request, positions from the server, colours from the style sheet's tokens.
// A push adds what is new; a node that stands is never moved.
import { dots } from "./graph_renderer.js";
import { COLUMN_PX, ROW_PX, beginning, fitting, sceneOf } from "./graph_scene.js";

const ROOM_PX = 24;
const LEAST_ZOOM = 0.02;
const MOST_ZOOM = 3;
const PART = 500; // elements, some 20 ms
const REST = 9; // times as long as an answer took: to follow a graph is a tenth of the server's time at most

const STEP_PX = 80; // that an arrow key moves the graph
const KEYS = {
  ArrowLeft: { by: { x: STEP_PX, y: 0 } }, ArrowRight: { by: { x: -STEP_PX, y: 0 } },
  ArrowUp: { by: { x: 0, y: STEP_PX } }, ArrowDown: { by: { x: 0, y: -STEP_PX } },
  "+": { zoom: 2 }, "-": { zoom: 0.5 }, 0: { zoom: 0 },
};

const canvas = document.getElementById("canvas");
const told = document.getElementById("canvas-told");

const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

// `light-dark()` is resolved by the browser alone: a probe's colour is asked for.
function looksOf(element) {
  const probe = document.createElement("span");
  element.append(probe);
  const found = { font: getComputedStyle(document.body).fontFamily };
  for (const name of ["ink", "paper", "edge", "finding", "hypothesis", "experiment", "other", "against"]) {
    probe.style.color = `var(--graph-${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

// What of the data Cytoscape does not have yet: nodes before edges, so that both ends of an edge are there.
function* missing({ nodes, edges }, cy) {
  for (const [id, kind, title, state, column, row] of nodes) {
    if (cy.hasElementWithId(id)) continue;
    yield { group: "nodes", data: { id, kind, title, state }, position: { x: column * COLUMN_PX, y: row * ROW_PX }, pannable: true };
  }
  for (const [from, to, relation] of edges) {
    const source = nodes[from][0], target = nodes[to][0];
    const id = `${source}>${target}>${relation}`;
    if (!cy.hasElementWithId(id)) yield { group: "edges", data: { id, source, target, relation } };
  }
}

// Give it to Cytoscape a part at a time, so that the page answers meanwhile: what is drawn does not wait for it.
async function fill(cy, data) {
  let some = [];
  for (const each of missing(data, cy)) {
    some.push(each);
    if (some.length === PART) {
      cy.add(some);
      some = [];
      await wait(0);
    }
  }
  cy.add(some);
}

async function ask() {
  const answer = await fetch(canvas.dataset.graph);
  if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
  return answer.json();
}

// One act at a time, with the rest after it that it asks for; what comes meanwhile is one more afterwards.
function oneByOne(act) {
  let running = false;
  let again = false;
  return async () => {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await wait(await act());
      }
    } finally {
      running = false;
    }
  };
}

async function show() {
  let missed = false;
  let renew = () => { missed = true; };
  document.getElementById("stream")?.addEventListener("htmx:sse:after:message", () => renew());
  let data = await ask();
  let scene = { ...sceneOf(data), pointed: -1 };
  let looks = looksOf(canvas);
  const all = () => fitting(scene, canvas.clientWidth, canvas.clientHeight, ROOM_PX);
  const start = beginning(scene, canvas.clientWidth, canvas.clientHeight, ROOM_PX);
  const cy = cytoscape({
    container: canvas,
    renderer: dots(cytoscape),
    styleEnabled: false, // the renderer has its own looks
    autoungrabify: true,
    boxSelectionEnabled: false,
    minZoom: Math.min(LEAST_ZOOM, all().zoom),
    maxZoom: MOST_ZOOM,
    ...start,
  });
  const paint = () => cy.renderer().show(scene, looks);
  const say = () => { told.textContent = `${data.nodes.length.toLocaleString("en")} nodes, ${data.edges.length.toLocaleString("en")} relations. A layer for each generation, a lane for each lever.`; };
  paint();
  say();
  await new Promise((done) => { cy.one("render", done); });
  canvas.dataset.shownMs = String(Math.round(performance.now()));
  canvas.graph = cy;
  cy.on("tap", "node", (event) => { location.href = `/knowledge?${new URLSearchParams({ node: event.target.id() })}`; });
  const point = (place, title) => {
    canvas.title = title;
    scene.pointed = place;
    cy.renderer().repaint();
  };
  cy.on("mouseover", "node", (event) => {
    const id = event.target.id();
    point(data.nodes.findIndex(([each]) => each === id), `${id}: ${event.target.data("title")}`);
  });
  cy.on("mouseout", "node", () => { point(-1, ""); });
  const zoom = (factor) => {
    const middle = { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 };
    if (factor) cy.zoom({ level: factor * cy.zoom(), renderedPosition: middle });
    else cy.viewport(all());
  };
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(Number(button.dataset.zoom)));
  }
  canvas.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? undefined : KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    if (act.by) cy.panBy(act.by);
    else zoom(act.zoom);
  });
  // What stands above it may grow with a push: Cytoscape looks by itself where it is after a scroll alone.
  new ResizeObserver(() => { cy.renderer().invalidateContainerClientCoordsCache(); }).observe(document.body);
  const restyle = () => { looks = looksOf(canvas); paint(); };
  new MutationObserver(restyle).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
  const add = async () => {
    await fill(cy, data);
    canvas.dataset.nodes = String(cy.nodes().length);
  };
  const filled = add();
  renew = oneByOne(async () => {
    await filled;
    const began = performance.now();
    const now = await ask().catch(() => null); // the page tells that the server is away; a later push asks again
    const took = performance.now() - began;
    if (now) {
      data = now;
      scene = { ...sceneOf(data), pointed: -1 };
      paint();
      say();
      await add();
    }
    return REST * took;
  });
  if (missed) renew();
  await filled;
}

if (canvas && window.cytoscape) {
  show().catch((error) => { told.textContent = `The graph could not be drawn: ${error.message} Reload the page to try again.`; });
}
