// Moments as the server tells them: by its clock, each with the offset from UTC that its zone had then, as the
// foot of every page says.
const offsets = JSON.parse(document.getElementById("zone").dataset.utcOffsets);
const offset_s = (at_ms) => (offsets.findLast(([since_s]) => since_s * 1000 <= at_ms) ?? offsets[0])[1];
const told = (at_ms) => new Date(at_ms + offset_s(at_ms) * 1000).toISOString();

export const moment = (at_ms) => told(at_ms).slice(0, 19).replace("T", " ");
export const clock = (at_ms) => told(at_ms).slice(11, 19);
