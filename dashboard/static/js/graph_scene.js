// The graph's data as arrays to draw from: places, kinds, and lines by how they look. Pure.
export const COLUMN_PX = 240;
export const ROW_PX = 16;
export const KINDS = ["other", "experiment", "hypothesis", "finding"]; // in the order in which they are drawn
const AGAINST = new Set(["refutes", "contradicts"]);

// Of `{ nodes: [[id, kind, title, state, column, row]], edges: [[source, target, relation]] }`, whose ends are
// places among the nodes. Of relations between the same two nodes one line is drawn: what speaks against, first.
export function sceneOf({ nodes, edges }) {
  const count = nodes.length;
  const scene = { nodes, x: new Float32Array(count), y: new Float32Array(count), kinds: new Uint8Array(count) };
  nodes.forEach(([, kind, , , column, row], place) => {
    scene.x[place] = column * COLUMN_PX;
    scene.y[place] = row * ROW_PX;
    scene.kinds[place] = Math.max(0, KINDS.indexOf(kind));
  });
  scene.downwards = Uint32Array.from(nodes.keys()).sort((one, other) => scene.x[one] - scene.x[other] || scene.y[one] - scene.y[other]);
  const drawn = new Set();
  const lines = (wanted) => {
    const ends = [];
    for (const [source, target, relation] of edges) {
      const pair = source * count + target;
      if (AGAINST.has(relation) !== wanted || drawn.has(pair)) continue;
      drawn.add(pair);
      ends.push(source, target);
    }
    return Uint32Array.from(ends);
  };
  scene.against = lines(true);
  scene.plain = lines(false);
  return scene;
}

const NAME_PX = 44; // of a name in the last column, which stands to the right of its dot

// Zoom and pan that show all of it in a window of this size, with room at the edges.
export function fitting(scene, width, height, room) {
  const right = scene.x.reduce((most, each) => Math.max(most, each), COLUMN_PX);
  const bottom = scene.y.reduce((most, each) => Math.max(most, each), ROW_PX);
  const zoom = Math.min((width - 2 * room - NAME_PX) / right, (height - 2 * room) / bottom, 1);
  return { zoom, pan: { x: (width - NAME_PX - zoom * right) / 2, y: (height - zoom * bottom) / 2 } };
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
