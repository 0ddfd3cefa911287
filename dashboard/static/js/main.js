// What every page has: the live button, copying, keys.
import { watch } from "./live.js";
import { copying } from "./copying.js";

watch(document.getElementById("stream"), document.getElementById("live"));
copying(document);
