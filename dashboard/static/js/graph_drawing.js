// Draws a scene onto a canvas: lines in bulk, dots by kind, names where there is room for them. Pure but for
// the canvas it is given.
import { COLUMN_PX, KINDS, READABLE_ZOOM, linesOf } from "./graph_scene.js";

export const NODE_PX = 10;
const LEAST_NODE_PX = 2;
const LEAST_SHAPE_PX = 5; // below it a circle, a diamond and a square look the same
const LEAST_LINE_PX = 1; // shorter lines are hidden by their dots
const LEAST_DASH_ZOOM = 0.3;
const LABEL_PX = 11;
const HALO_PX = 4; // around a name, so that lines don't strike it through
const LEAST_LABEL_ROW_PX = 11; // from a name to the next one below it
const LEAST_LABEL_COLUMN_PX = 64; // and from a column of names to the next
const MOST_LABEL_PX = 80;
const TITLED = new Set(["hardware", "model"]); // whose ids are keys, for machines to read
const LANE_COLUMNS = 2; // that the name of a lane may be long
const LINE_OPACITY = 0.6;
const FAR_ZOOM = 0.2; // lines lie so close that fainter ones let their dots be seen
const FAR_LINE_OPACITY = 0.2;

// `view` has `zoom`, `pan` (in pixels of the canvas), `width` and `height`; `looks` has colours and a font.
export function draw(context, scene, view, looks) {
  const x = Float32Array.from(scene.x, (each) => each * view.zoom + view.pan.x);
  const y = Float32Array.from(scene.y, (each) => each * view.zoom + view.pan.y);
  const place = { x, y, view };
  context.clearRect(0, 0, view.width, view.height);
  context.globalAlpha = view.zoom < FAR_ZOOM ? FAR_LINE_OPACITY : LINE_OPACITY;
  strokeAll(context, scene.plain, place, looks.edge);
  context.globalAlpha = 1;
  if (view.zoom > LEAST_DASH_ZOOM) context.setLineDash([4, 3]);
  strokeAll(context, scene.against, place, looks.against);
  context.setLineDash([]);
  const size = Math.max(LEAST_NODE_PX, NODE_PX * Math.min(view.zoom, 1));
  context.globalAlpha = 1;
  if (scene.pointed >= 0) strokeAll(context, linesOf(scene, scene.pointed), place, looks.hypothesis);
  KINDS.forEach((name, kind) => fillAll(context, scene.kinds, kind, place, size, looks[name]));
  if (view.zoom * COLUMN_PX >= LEAST_LABEL_COLUMN_PX) label(context, scene, place, size, looks);
  if (view.zoom >= READABLE_ZOOM) nameLanes(context, scene, view, size, looks);
}

// Only hairlines: those are drawn one by one, whereas thicker ones are made into an outline of them all.
function strokeAll(context, ends, { x, y, view }, colour) {
  context.strokeStyle = colour;
  context.lineWidth = view.hairline;
  context.beginPath();
  for (let at = 0; at < ends.length; at += 2) {
    const x0 = x[ends[at]], y0 = y[ends[at]], x1 = x[ends[at + 1]], y1 = y[ends[at + 1]];
    if (Math.max(x0, x1) < 0 || Math.min(x0, x1) > view.width) continue;
    if (Math.max(y0, y1) < 0 || Math.min(y0, y1) > view.height) continue;
    if (Math.abs(x1 - x0) + Math.abs(y1 - y0) < LEAST_LINE_PX) continue;
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
  }
  context.stroke();
}

function fillAll(context, kinds, kind, { x, y, view }, size, colour) {
  const half = size / 2;
  const shape = size < LEAST_SHAPE_PX ? "square" : KINDS[kind];
  context.fillStyle = colour;
  context.beginPath();
  for (let at = 0; at < kinds.length; at += 1) {
    if (kinds[at] !== kind || !seen(x[at], y[at], size, view)) continue;
    if (shape === "hypothesis") {
      context.moveTo(x[at] + half, y[at]);
      context.arc(x[at], y[at], half, 0, 2 * Math.PI);
    } else if (shape === "experiment") {
      context.moveTo(x[at], y[at] - half);
      context.lineTo(x[at] + half, y[at]);
      context.lineTo(x[at], y[at] + half);
      context.lineTo(x[at] - half, y[at]);
    } else {
      context.fillRect(Math.round(x[at] - half), Math.round(y[at] - half), Math.round(size), Math.round(size));
    }
  }
  context.fill();
}

// From the top of each column down, the names that don't run into the one above.
function label(context, scene, { x, y, view }, size, looks) {
  context.font = `${LABEL_PX}px ${looks.font}`;
  context.textBaseline = "middle";
  context.fillStyle = looks.ink;
  context.strokeStyle = looks.paper;
  context.lineWidth = HALO_PX;
  const room = view.zoom * COLUMN_PX - size - 3 * HALO_PX;
  let column = NaN;
  let above = NaN;
  for (const at of scene.downwards) {
    if (scene.x[at] === column && y[at] - above < LEAST_LABEL_ROW_PX) continue;
    column = scene.x[at];
    above = y[at];
    if (!seen(x[at], y[at], MOST_LABEL_PX, view)) continue;
    const left = x[at] + size / 2 + HALO_PX;
    const [id, kind, title] = scene.nodes[at];
    const name = fitted(context, TITLED.has(kind) ? title : id, room);
    context.strokeText(name, left, y[at]);
    context.fillText(name, left, y[at]);
  }
}

// Above each lane the name of its lever, in the row that layouts leave empty there.
function nameLanes(context, { lanes }, view, size, looks) {
  context.font = `600 ${LABEL_PX}px ${looks.font}`;
  for (const { name, x, y } of lanes) {
    const left = x * view.zoom + view.pan.x - size / 2, top = y * view.zoom + view.pan.y;
    if (!seen(left, top, MOST_LABEL_PX, view)) continue;
    const told = fitted(context, name, view.zoom * COLUMN_PX * LANE_COLUMNS);
    context.strokeText(told, left, top);
    context.fillText(told, left, top);
  }
}

// `knob:drafting.draft_tokens` as `draft_tokens` where there is no room for all of it, and cut where that is
// too long too.
function fitted(context, name, room) {
  if (context.measureText(name).width <= room) return name;
  let short = name.slice(name.search(/[:.][^:.]*$/) + 1);
  while (short.length > 1 && context.measureText(`${short}…`).width > room) short = short.slice(0, -1);
  return name.endsWith(short) && context.measureText(short).width <= room ? short : `${short}…`;
}

function seen(x, y, around, view) {
  return x > -around && x < view.width + around && y > -around && y < view.height + around;
}
