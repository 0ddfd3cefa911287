// What every page has: the live button, copying, keys.
import { watch } from "./live.js";
import { copying } from "./copying.js";
import { keys, menus } from "./keys.js";
import { palette } from "./palette.js";
import { persist } from "./streams.js";

persist(document);
watch(document.getElementById("stream"), document.getElementById("live"));
copying(document);
const find = palette(document.getElementById("palette"));
keys(document.getElementById("keys"), find);
menus(document);
document.querySelector("[data-find][href]").addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  find();
});

// What a reader opened stays open when a push renders it again.
window.htmx?.registerExtension("keep-open", {
  htmx_before_morph_attr: (element, { attrName }) => !(attrName === "open" && element.matches("details")),
});
