// A row that leaves while it has the focus gives it to the one that comes into its place.
export function handOver(selector) {
  const rows = () => [...document.querySelectorAll(selector)];
  let held = null;
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.(selector);
    held = row && { id: row.id, at: rows().indexOf(row) };
  });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest?.(selector)) held = null;
  });
  new MutationObserver(() => {
    if (!held || document.activeElement !== document.body || document.getElementById(held.id)) return;
    const left = rows();
    left[Math.min(held.at, left.length - 1)]?.querySelector("a[href]").focus({ preventScroll: true });
  }).observe(document.getElementById("view"), { childList: true, subtree: true });
}
