// Keys: g and a letter goes to a page, j and k move from row to row, / and Ctrl K find, ? lists them all.
// A row is what holds a link or a button; its first one takes the focus, so Enter follows it by itself.
const CHORD_MS = 1200;
const ROWS = "main tbody tr, main [data-row], main .nx-r, main .tree .tr";

function typing(target) {
  return target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

function handle(row) {
  return row.querySelector("a[href], button:not([disabled])");
}

function move(step) {
  const rows = [...document.querySelectorAll(ROWS)].filter((row) => row.checkVisibility() && handle(row));
  if (!rows.length) return;
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const next = here < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(here + step, 0), rows.length - 1);
  const found = handle(rows[next]);
  found.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}

export function keys(sheet, find) {
  let chord = 0;
  const acts = {
    j: () => move(1),
    k: () => move(-1),
    "/": find,
    "?": () => sheet.showModal(),
    p: () => document.querySelector("#live")?.click(),
    t: () => document.querySelector("[data-toggle-theme]").click(),
  };
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      find();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    const pressed = event.key;
    if (chord && Date.now() - chord < CHORD_MS) {
      chord = 0;
      const link = [...document.querySelectorAll(".nav [data-key]")].find((each) => each.dataset.key === pressed);
      if (link) { event.preventDefault(); location.href = link.href; }
      return;
    }
    chord = pressed === "g" ? Date.now() : 0;
    if (Object.hasOwn(acts, pressed)) {
      event.preventDefault();
      acts[pressed]();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys]")) sheet.showModal();
    if (event.target === sheet) sheet.close();
  });
}

// A menu that is open closes by Escape, and by a press or the focus going elsewhere.
export function menus(root) {
  const open = () => root.querySelectorAll("details[data-menu][open]");
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of open()) { menu.open = false; menu.querySelector("summary").focus(); }
  });
  for (const kind of ["click", "focusin"]) {
    root.addEventListener(kind, (event) => {
      for (const menu of open()) if (!menu.contains(event.target)) menu.open = false;
    });
  }
}
