// The tree by keyboard (WAI-ARIA tree view): one item is in the tab order, arrows walk, Left and Right close and open.
// Without this the tree is a nested list of links. What was closed stays closed when a push renders it again.
const closed = new Set();
let current = null;

const tree = () => document.getElementById("tree");
const group = (item) => document.getElementById(item.getAttribute("aria-owns"));
const shown = () => [...tree().querySelectorAll("[role=treeitem]")].filter((item) => !item.closest("ul[hidden]"));
const keyOf = (item) => item.parentElement.id;

function dress() {
  if (!tree()) return;
  const items = [...tree().querySelectorAll("[role=treeitem]")];
  for (const item of items) {
    if (!item.hasAttribute("aria-owns")) continue;
    const open = String(!closed.has(keyOf(item)));
    if (item.getAttribute("aria-expanded") !== open) item.setAttribute("aria-expanded", open);
    if (group(item).hidden !== (open === "false")) group(item).hidden = open === "false";
  }
  const seen = shown();
  const active = seen.find((item) => keyOf(item) === current) ?? seen[0];
  for (const item of items) {
    const place = item === active ? "0" : "-1";
    if (item.getAttribute("tabindex") !== place) item.setAttribute("tabindex", place);
  }
}

function go(item) {
  if (!item) return;
  current = keyOf(item);
  dress();
  item.focus();
}

function toggle(item, open) {
  if (open) closed.delete(keyOf(item));
  else closed.add(keyOf(item));
  dress();
}

document.addEventListener("focusin", (event) => {
  const item = event.target.closest?.("#tree [role=treeitem]");
  if (!item || keyOf(item) === current) return;
  current = keyOf(item);
  dress();
});

let typed = "";
let typing = 0;
function search(letter) {
  clearTimeout(typing);
  typing = setTimeout(() => { typed = ""; }, 600);
  typed += letter.toLowerCase();
  const items = shown();
  const at = items.findIndex((item) => keyOf(item) === current) + (typed.length === 1 ? 1 : 0);
  go([...items.slice(at), ...items.slice(0, at)].find((item) => item.textContent.toLowerCase().includes(typed)));
}

document.addEventListener("keydown", (event) => {
  const item = event.target.closest?.("#tree [role=treeitem]");
  if (!item || event.altKey || event.ctrlKey || event.metaKey) return;
  const items = shown();
  const at = items.indexOf(item);
  const expanded = item.getAttribute("aria-expanded");
  if (event.key === "ArrowDown") go(items[at + 1]);
  else if (event.key === "ArrowUp") go(items[at - 1]);
  else if (event.key === "Home") go(items[0]);
  else if (event.key === "End") go(items.at(-1));
  else if (event.key === "ArrowRight" && expanded === "false") toggle(item, true);
  else if (event.key === "ArrowRight" && expanded === "true") go(items[at + 1]);
  else if (event.key === "ArrowLeft" && expanded === "true") toggle(item, false);
  else if (event.key === "ArrowLeft") go(item.closest("ul").closest("li")?.querySelector("[role=treeitem]"));
  else if (event.key === " ") item.click();
  else if (event.key.length === 1 && /\S/.test(event.key)) search(event.key);
  else return;
  event.preventDefault();
  event.stopPropagation();
}, true);

dress();
const view = document.getElementById("view");
new MutationObserver(dress).observe(view, { childList: true, subtree: true, attributeFilter: ["tabindex", "aria-expanded", "hidden"] });
