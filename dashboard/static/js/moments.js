// Moments as the server tells them: by its clock, whose zone stands at the foot of every page.
const offset_ms = Number(document.getElementById("zone").dataset.utcOffsetS) * 1000;
const told = (at_ms) => new Date(at_ms + offset_ms).toISOString();

export const moment = (at_ms) => told(at_ms).slice(0, 19).replace("T", " ");
export const clock = (at_ms) => told(at_ms).slice(11, 19);
