import { handOver } from "./handing_over.js";

// The queue by hand: a row is dragged, or moved with Alt and an arrow while the focus is in it.
// Either fills in the row's own form and sends it, so that there is one way to move.
const body = () => document.getElementById("rows");
const place = (row) => Number(row.dataset.place);
const rows = () => [...body().querySelectorAll("tr[data-place]")];

function moveTo(row, to) {
  const form = row.querySelector('form[action="/queue/move"]');
  if (!form || to === place(row) || to < 1) return;
  form.elements.to.value = to;
  form.requestSubmit();
}

document.addEventListener("keydown", (event) => {
  if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
  const row = event.target.closest("tr[data-place]");
  if (!row) return;
  event.preventDefault();
  moveTo(row, place(row) + (event.key === "ArrowUp" ? -1 : 1));
});

let dragged = null;
const marked = () => document.querySelectorAll("tr.over").forEach((row) => row.classList.remove("over"));

document.addEventListener("pointerdown", (event) => {
  const row = event.target.closest?.(".q-r")?.closest("tr[data-place]");
  onlyDraggable(row);
});

function onlyDraggable(only) {
  if (!body()) return;
  for (const row of rows()) row.draggable = row === only;
}

document.addEventListener("dragstart", (event) => {
  dragged = event.target.closest?.("tr[data-place]");
  if (!dragged) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", dragged.id);
  dragged.classList.add("dragged");
});
document.addEventListener("dragover", (event) => {
  const over = event.target.closest?.("tr[data-place]");
  if (!dragged || !over) return;
  event.preventDefault();
  marked();
  over.classList.add("over");
});
document.addEventListener("drop", (event) => {
  const over = event.target.closest?.("tr[data-place]");
  if (!dragged || !over || over === dragged) return;
  event.preventDefault();
  moveTo(dragged, place(over));
});
document.addEventListener("dragend", () => {
  dragged?.classList.remove("dragged");
  marked();
  onlyDraggable(null);
  dragged = null;
});

// A menu closes once its act was done, so that the row it stood in shows what became of it.
document.addEventListener("htmx:after:request", (event) => {
  const menu = event.target.closest?.("details.q-m");
  if (!menu || event.target.matches(".q-if")) return; // what would follow is read in the menu itself
  if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
  menu.open = false;
});

handOver("#rows tr[data-place]");
