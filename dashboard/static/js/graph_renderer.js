// A renderer for Cytoscape, by its extension point: Cytoscape keeps the graph and the gestures (drag, wheel,
// pinch, tap), this one draws. Cytoscape's own reckons a style for every element and took seconds for a graph
// of 5,000 nodes.
//
// The canvas is drawn larger than the window. While somebody pans or zooms it is only moved and scaled, which
// costs next to nothing; it is drawn again once that rests, or where its edge would be seen.
import { NODE_PX, draw } from "./graph_drawing.js";
import { nodeAt } from "./graph_scene.js";

const NAME = "dots";
const MARGIN = 0.35; // of the window, on each side
const MOST_PIXEL_RATIO = 2;
const REST_MS = 120;
const BUSY_SHARE = 3; // while moving, drawing takes at most one part in so many of the time
const REACH_PX = 4;
const WHEEL = 2.5; // times Cytoscape's: from all of the graph to its names is a factor of 50

function Dots({ cy }) {
  this.data = {};
  this.beforeRenderCallbacks = []; // the base's reckon styles, of which there are none here
  this.wheelSensitivity = WHEEL; // as an option it would complain in the console
  this.picture = null;
  this.canvas = document.createElement("canvas");
  this.canvas.setAttribute("aria-hidden", "true");
  this.context = this.canvas.getContext("2d");
  this.drawn = null;
  this.drawMs = 0;
  this.drawnAt = 0;
  this.container.append(this.canvas);
  this.findNearestElements = (x, y, interactiveOnly, isTouch) => {
    if (!this.picture) return [];
    const place = nodeAt(this.picture.scene, x, y, NODE_PX / 2 + (isTouch ? 3 : 1) * REACH_PX / cy.zoom());
    return place < 0 ? [] : cy.getElementById(this.picture.scene.nodes[place][0]).toArray();
  };
  this.getCachedZSortedEles = () => Object.assign([], { interactive: [] }); // nothing can be grabbed
}

Object.assign(Dots.prototype, {
  redrawHint() {},

  matchCanvasSize() {
    const { clientWidth: width, clientHeight: height } = this.container;
    const ratio = Math.min(window.devicePixelRatio || 1, MOST_PIXEL_RATIO);
    const sized = this.size;
    if (sized && sized.width === width && sized.height === height && sized.ratio === ratio) return;
    const left = Math.round(MARGIN * width);
    const top = Math.round(MARGIN * height);
    this.size = { width, height, ratio, left, top };
    this.canvas.width = (width + 2 * left) * ratio;
    this.canvas.height = (height + 2 * top) * ratio;
    Object.assign(this.canvas.style, {
      width: `${width + 2 * left}px`, height: `${height + 2 * top}px`, left: `${-left}px`, top: `${-top}px`,
    });
    this.drawn = null;
  },

  // Draw a scene, in these looks; what was drawn before is forgotten.
  show(scene, looks) {
    this.picture = { scene, looks };
    this.repaint();
  },

  repaint() {
    this.drawn = null;
    this.redraw();
  },

  render() {
    if (!this.size || !this.picture) return;
    const view = { zoom: this.cy.zoom(), pan: { ...this.cy.pan() } };
    if (!this.drawn) {
      this.paint(view);
    } else if (!same(view, this.drawn)) {
      const rested = performance.now() - this.drawnAt;
      const scale = view.zoom / this.drawn.zoom;
      const free = rested > BUSY_SHARE * this.drawMs;
      if (free && (scale !== 1 || !this.covers(view))) this.paint(view);
      else this.move(view, scale);
      clearTimeout(this.resting);
      this.resting = setTimeout(() => { if (!same(this.drawn, view)) this.repaint(); }, REST_MS);
    }
    this.cy.emit("render");
  },

  // Whether what is drawn, moved, still fills the window.
  covers(view) {
    const { left, top } = this.size;
    return Math.abs(view.pan.x - this.drawn.pan.x) <= left && Math.abs(view.pan.y - this.drawn.pan.y) <= top;
  },

  move(view, scale) {
    const { left, top } = this.size;
    const x = view.pan.x + left - scale * (this.drawn.pan.x + left);
    const y = view.pan.y + top - scale * (this.drawn.pan.y + top);
    this.canvas.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
  },

  paint(view) {
    const began = performance.now();
    const { width, height, ratio, left, top } = this.size;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(this.context, this.picture.scene, {
      zoom: view.zoom,
      pan: { x: view.pan.x + left, y: view.pan.y + top },
      width: width + 2 * left,
      height: height + 2 * top,
      hairline: 1 / ratio,
    }, this.picture.looks);
    this.canvas.style.transform = "none";
    this.drawn = view;
    this.drawnAt = performance.now();
    this.drawMs = this.drawnAt - began;
  },

  renderTo() {},
  nodeShapeImpl() {},
  arrowShapeImpl() {},
});

function same(one, other) {
  return one && other && one.zoom === other.zoom && one.pan.x === other.pan.x && one.pan.y === other.pan.y;
}

// What to give Cytoscape as its `renderer`.
export function dots(cytoscape) {
  if (!cytoscape("renderer", NAME)) cytoscape("renderer", NAME, Dots);
  return { name: NAME };
}
