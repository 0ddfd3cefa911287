// A choice asks the server again, which knows what is legal then; the form's state stands in the address.


document.addEventListener("change", async (event) => {
  const form = event.target.closest("#enqueue");
  if (!form || !window.htmx) return;
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  const address = `/enqueue${query.size ? `?${query}` : ""}`;
  await htmx.ajax("GET", address, { source: form, target: "#view", select: "#view", swap: "outerMorph" });
  history.replaceState(null, "", address);
});
