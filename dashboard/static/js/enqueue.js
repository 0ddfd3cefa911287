// A choice asks the server again, which knows what is legal then; the form's state stands in the address.
// The form is not the source of what is asked: it would be checked first, and a claim need not be written yet.
// The view is, which puts the latest question in place of one not answered yet.
document.addEventListener("change", (event) => {
  const form = event.target.closest("#enqueue");
  if (!form || !window.htmx) return;
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  const address = `/enqueue${query.size ? `?${query}` : ""}`;
  history.replaceState(null, "", address);
  htmx.ajax("GET", address, { source: "#view", target: "#view", select: "#view", swap: "outerMorph" });
});
