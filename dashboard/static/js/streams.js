// A stream that began is tried again by htmx' extension; one that never did is tried again here.
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5000;
const ADDRESS = "hx-sse:connect";

const isEvents = (answer) => answer.headers.get("content-type")?.startsWith("text/event-stream");

// Dispatches `stream:missed` on a stream's element each time that it could not begin.
export function persist(root) {
  const begun = new WeakSet();
  const waits = new WeakMap();

  root.addEventListener("htmx:sse:after:connection", ({ target }) => {
    begun.add(target);
    waits.delete(target);
  });

  // Words in place of events, such as that the database is locked: no view to be shown.
  root.addEventListener("htmx:before:response", (event) => {
    if (event.target.hasAttribute?.(ADDRESS) && !isEvents(event.detail.ctx.response)) event.preventDefault();
  });

  // An element that is gone by then has told of its end by the document, which has no attributes.
  root.addEventListener("htmx:finally:request", ({ target }) => {
    if (!target.hasAttribute?.(ADDRESS) || begun.has(target)) return;
    const wait = waits.get(target) ?? FIRST_RETRY_MS;
    waits.set(target, Math.min(2 * wait, LONGEST_RETRY_MS));
    target.dispatchEvent(new CustomEvent("stream:missed"));
    setTimeout(() => {
      if (target.isConnected) htmx.ajax("GET", target.getAttribute(ADDRESS), { source: target });
    }, wait);
  });
}
