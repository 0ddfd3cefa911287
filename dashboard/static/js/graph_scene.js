// The graph's data as arrays to draw from: places, kinds, and lines by how they look. Pure.
export const COLUMN_PX = 240;
export const ROW_PX = 20;
export const READABLE_ZOOM = 0.6; // names of 11 px stand in all rows, without running into each other
export const KINDS = ["other", "experiment", "hypothesis", "finding"]; // in the order in which they are drawn
const AGAINST = new Set(["refutes", "contradicts"]);
const CONTEXT = new Set(["changes", "part_of", "optimizes", "runs_on", "scoped_to"]);

// Of `{ nodes: [[id, kind, title, state, column, row]], edges: [[source, target, relation]] }`, whose ends are
// places among the nodes. Of relations between the same two nodes one line is drawn: what speaks against, first.
// What nearly every node has, such as its campaign and its knobs, is no line: all of those hide the others. They
// are `linesOf` a node that is pointed at. `lanes` are names of levers and the row above which each begins.
export function sceneOf({ nodes, edges, lanes }) {
  const count = nodes.length;
  const scene = { nodes, x: new Float32Array(count), y: new Float32Array(count), kinds: new Uint8Array(count) };
  nodes.forEach(([, kind, , , column, row], place) => {
    scene.x[place] = column * COLUMN_PX;
    scene.y[place] = row * ROW_PX;
    scene.kinds[place] = Math.max(0, KINDS.indexOf(kind));
  });
  scene.downwards = Uint32Array.from(nodes.keys()).sort((one, other) => scene.x[one] - scene.x[other] || scene.y[one] - scene.y[other]);
  scene.edges = edges;
  scene.lanes = lanes.map(([name, column, row]) => ({ name, x: column * COLUMN_PX, y: (row - 1) * ROW_PX }));
  const drawn = new Set();
  const lines = (wanted) => {
    const ends = [];
    for (const [source, target, relation] of edges) {
      const pair = source * count + target;
      if (AGAINST.has(relation) !== wanted || CONTEXT.has(relation) || drawn.has(pair)) continue;
      drawn.add(pair);
      ends.push(source, target);
    }
    return Uint32Array.from(ends);
  };
  scene.against = lines(true);
  scene.plain = lines(false);
  return scene;
}

// The ends of all lines of one node, by its place.
export function linesOf(scene, place) {
  return Uint32Array.from(scene.edges.filter(([source, target]) => source === place || target === place).flatMap(([source, target]) => [source, target]));
}

const BEGIN_PX = 10; // left of the first column that is shown, so that no name of the one before it is
const NAME_PX = 44; // of a name in the last column, which stands to the right of its dot

// Zoom and pan that show all of it in a window of this size, with room at the edges.
export function fitting(scene, width, height, room) {
  const right = scene.x.reduce((most, each) => Math.max(most, each), COLUMN_PX);
  const bottom = scene.y.reduce((most, each) => Math.max(most, each), ROW_PX);
  const zoom = Math.min((width - 2 * room - NAME_PX) / right, (height - 2 * room) / bottom, 1);
  return { zoom, pan: { x: (width - NAME_PX - zoom * right) / 2, y: (height - zoom * bottom) / 2 } };
}

// Where to begin: all of it, where names can be read then; or, at the least zoom for that, from the first
// hypotheses on, downwards.
export function beginning(scene, width, height, room) {
  const all = fitting(scene, width, height, room);
  if (all.zoom >= READABLE_ZOOM) return all;
  const first = scene.nodes.findIndex(([, kind]) => kind === "hypothesis");
  const right = scene.x.reduce((most, each) => Math.max(most, each), 0) * READABLE_ZOOM + NAME_PX;
  const left = first < 0 || right < width - 2 * room ? 0 : scene.x[first] * READABLE_ZOOM;
  return { zoom: READABLE_ZOOM, pan: { x: (left ? BEGIN_PX : room) - left, y: room + ROW_PX * READABLE_ZOOM } };
}

// The place of the node at a point of the model, the nearest within `reach`, or -1.
export function nodeAt(scene, x, y, reach) {
  let found = -1;
  let least = reach;
  for (let place = 0; place < scene.x.length; place += 1) {
    const away = Math.max(Math.abs(scene.x[place] - x), Math.abs(scene.y[place] - y));
    if (away <= least) { found = place; least = away; }
  }
  return found;
}
