// Connecting, live, paused with a count, or disconnected: what the button in the bar tells and does.
// A push is a whole view, so while paused the newest is kept, and it is swapped in on going on.
const TICK_MS = 1000;
const MINUTE_S = 60;

function ago(seconds) {
  return seconds < MINUTE_S ? `${seconds} s ago` : `${Math.floor(seconds / MINUTE_S)} min ago`;
}

export function watch(stream, button) {
  if (!stream || !button || !window.htmx) return;
  const text = button.querySelector("[data-live-text]");
  const age = button.querySelector("[data-live-age]");
  const told = document.getElementById("live-told");
  const lost = document.getElementById("lost");
  let paused = false;
  let connected = null; // not known before the stream begins
  let kept = null;
  let shown = Number(stream.dataset.lastId);
  let newest = shown;
  let updated = Date.now();

  const state = () =>
    connected === false ? "lost" : paused ? "paused" : connected === null ? "connecting" : "live";

  const tell = () => {
    const count = newest - shown;
    const seconds = Math.floor((Date.now() - updated) / TICK_MS);
    text.textContent = {
      lost: "Reconnecting",
      paused: `Paused · ${count} new`,
      connecting: "Connecting",
      live: "Live",
    }[state()];
    age.textContent = seconds > 1 ? ` · ${ago(seconds)}` : "";
    button.setAttribute("aria-pressed", String(paused));
    const before = button.dataset.state;
    if (before === state()) return;
    button.dataset.state = state();
    lost.hidden = connected !== false;
    if (before === "connecting" && connected && !paused) return; // nothing to tell of a page that opens
    told.textContent = connected !== false
      ? paused ? "Updates are paused." : "Updates are live."
      : "The server does not answer; trying again.";
  };

  const done = (id) => {
    shown = newest = Number(id) || newest;
    updated = Date.now();
    connected = true;
    tell();
  };

  stream.addEventListener("htmx:sse:before:message", (event) => {
    newest = Number(event.detail.message.id) || newest;
    connected = true;
    if (!paused) return;
    kept = event.detail.message.data;
    event.detail.cancelled = true;
    tell();
  });
  stream.addEventListener("htmx:sse:after:message", (event) => done(event.detail.message.id));
  stream.addEventListener("htmx:sse:after:connection", () => { connected = true; tell(); });
  stream.addEventListener("htmx:sse:before:connection", (event) => {
    if (event.detail.connection.attempt > 0 && !document.hidden) { connected = false; tell(); }
  });
  stream.addEventListener("htmx:sse:error", () => { connected = false; tell(); });
  stream.addEventListener("htmx:error", () => { connected = false; tell(); });
  stream.addEventListener("stream:missed", () => { connected = false; tell(); });

  button.addEventListener("click", async () => {
    paused = !paused;
    if (!paused && kept !== null) {
      const data = kept;
      kept = null;
      await htmx.swap({ text: data, target: "#view", swap: "innerMorph", sourceElement: stream });
      done(newest);
    }
    tell();
  });
  setInterval(tell, TICK_MS);
  tell();
}
