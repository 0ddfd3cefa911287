// What every page has: the live button, copying, keys.
import { watch } from "./live.js";
import { copying } from "./copying.js";

watch(document.getElementById("stream"), document.getElementById("live"));
copying(document);

// What a reader opened stays open when a push renders it again.
window.htmx?.registerExtension("keep-open", {
  htmx_before_morph_attr: (element, { attrName }) => !(attrName === "open" && element.matches("details")),
});
