import { handOver } from "./handing_over.js";
import { moment } from "./moments.js";

// What was seen last, offered as a link that tells what happened since; and the time since a start.
const KEY = "now.seen";
const TICK_S = 1;
const SEEN_AFTER_MS = 5000;

const head = () => document.getElementById("now-head");
const newest = () => Number(head()?.dataset.lastId ?? 0);

function stored(campaign) {
  try { return JSON.parse(localStorage.getItem(`${KEY}.${campaign}`) ?? "null"); } catch { return null; }
}

function remember(campaign) {
  if (!newest()) return;
  const seen = { id: newest(), at: new Date().toISOString() };
  try { localStorage.setItem(`${KEY}.${campaign}`, JSON.stringify(seen)); } catch { /* private mode */ }
}

function offer(line) {
  const seen = stored(line.dataset.campaign);
  if (!seen || !Number.isInteger(seen.id) || seen.id >= newest()) return;
  const at = line.querySelector("[data-since-at]");
  at.dateTime = seen.at;
  at.textContent = moment(Date.parse(seen.at));
  line.querySelector("[data-since-link]").search = new URLSearchParams({ campaign: line.dataset.campaign, since: seen.id });
  line.hidden = false;
}

function elapsed(seconds) {
  const [h, m, s] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, Math.floor(seconds) % 60];
  if (h) return `${h}\u202fh ${m}\u202fmin`;
  return m ? `${m}\u202fmin ${s}\u202fs` : `${s}\u202fs`;
}

const line = document.getElementById("since");
const campaign = line?.dataset.campaign ?? new URLSearchParams(location.search).get("campaign");
if (line) offer(line);
if (campaign) {
  const opened = Date.now();
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && Date.now() - opened > SEEN_AFTER_MS) remember(campaign);
  });
}
setInterval(() => {
  for (const each of document.querySelectorAll("[data-elapsed]")) {
    const seconds = (Date.now() - Date.parse(each.dataset.elapsed)) / 1000;
    if (seconds >= 0) each.textContent = elapsed(seconds);
  }
}, TICK_S * 1000);
handOver("#approvals li");
