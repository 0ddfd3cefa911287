// Live, paused with a count, or disconnected: what the button in the bar tells and does.
// A push is a whole view, so while paused only the newest is kept, and the count is that of events.
const AGE_MS = 1000;

export function watch(stream, button) {
  if (!stream || !button) return;
  const text = button.querySelector("[data-live-text]");
  const age = button.querySelector("[data-live-age]");
  let paused = false;
  let shown = Number(stream.dataset.lastId);
  let newest = shown;
  let updated = Date.now();
  let connected = true;

  const tell = () => {
    button.dataset.state = !connected ? "lost" : paused ? "paused" : "live";
    text.textContent = !connected ? "Reconnecting" : paused ? `Paused · ${newest - shown} new` : "Live";
    const seconds = Math.floor((Date.now() - updated) / AGE_MS);
    age.textContent = connected && !paused && seconds > 1 ? ` · ${seconds} s ago` : "";
    button.setAttribute("aria-label", paused ? `Paused, ${newest - shown} new events; press to go on` : "Live; press to pause");
  };

  stream.addEventListener("htmx:sse:before:message", (event) => {
    newest = Number(event.detail.message.id) || newest;
    if (paused) {
      event.detail.cancelled = true;
      tell();
    }
  });
  stream.addEventListener("htmx:sse:after:message", () => {
    shown = newest;
    updated = Date.now();
    connected = true;
    tell();
  });
  stream.addEventListener("htmx:sse:after:connection", () => { connected = true; tell(); });
  stream.addEventListener("htmx:sse:error", () => { connected = false; tell(); });

  button.addEventListener("click", () => {
    paused = !paused;
    if (!paused && newest > shown) location.reload();
    tell();
  });
  setInterval(tell, AGE_MS);
  tell();
}
