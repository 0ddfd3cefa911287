// The palette: pages, labels and claims, asked of the server while one types (a combobox with a list).
const WAIT_MS = 80;

const ACTS = [
  { title: "Switch theme", about: "Act", run: () => document.querySelector("[data-toggle-theme]").click() },
  { title: "List the keys", about: "Act", run: () => document.getElementById("keys").showModal() },
];

export function palette(dialog) {
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("[role=listbox]");
  const told = dialog.querySelector("[role=status]");
  const address = dialog.dataset.find;
  let shown = [];
  let chosen = 0;
  let asked = null;
  let timer = 0;

  const mark = (place) => {
    chosen = shown.length ? (place + shown.length) % shown.length : 0;
    [...list.children].forEach((each, index) => each.setAttribute("aria-selected", String(index === chosen)));
    const option = list.children[chosen];
    if (option) { input.setAttribute("aria-activedescendant", option.id); option.scrollIntoView({ block: "nearest" }); }
    else input.removeAttribute("aria-activedescendant");
  };

  const show = (found, words) => {
    shown = found;
    list.replaceChildren(...found.map((each, index) => {
      const option = document.createElement("li");
      option.id = `found-${index}`;
      option.setAttribute("role", "option");
      option.className = "pal-o";
      for (const [name, value] of [["pal-k", each.about], ["pal-t", each.title], ["pal-s", each.state ?? ""]]) {
        const part = document.createElement("span");
        part.className = name;
        part.textContent = value;
        option.append(part);
      }
      option.addEventListener("click", () => { mark(index); follow(); });
      return option;
    }));
    told.textContent = words;
    mark(0);
  };

  const follow = () => {
    const found = shown[chosen];
    if (!found) return;
    dialog.close();
    if (found.run) found.run();
    else location.href = found.url;
  };

  const ask = async () => {
    const text = input.value.trim();
    asked?.abort();
    asked = new AbortController();
    list.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${address}?${new URLSearchParams({ q: text })}`, { signal: asked.signal });
      if (!answer.ok) throw new Error(String(answer.status));
      const acts = ACTS.filter((act) => act.title.toLowerCase().includes(text.toLowerCase()));
      const found = [...(await answer.json()).found, ...acts];
      show(found, found.length ? "" : `Nothing is called “${text}”. Try a label such as E-0012, or a word of a claim.`);
    } catch (error) {
      if (error.name !== "AbortError") show([], "The server does not answer. Type again to try again.");
    } finally {
      list.removeAttribute("aria-busy");
    }
  };

  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, WAIT_MS); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") mark(chosen + 1);
    else if (event.key === "ArrowUp") mark(chosen - 1);
    else if (event.key === "Enter") follow();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  return () => {
    if (dialog.open) return;
    input.value = "";
    dialog.showModal();
    input.focus();
    ask();
  };
}
