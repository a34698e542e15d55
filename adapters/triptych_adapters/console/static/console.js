// Keys and copying: every page works without this file.
"use strict";
const keys = {
  "/": () => document.querySelector("input[type=search], #q")?.focus(),
  j: () => step(1),
  k: () => step(-1),
  "?": () => help.open ? help.close() : help.showModal(),
};
const help = document.createElement("dialog");
const said = [["/", "search"], ["j, k", "next and previous hit"], ["Enter", "open the hit"], ["r, w", "mark the hit right, wrong"], ["?", "these keys"]];
help.append(...said.map(([key, what]) => {
  const line = document.createElement("p"), name = document.createElement("kbd");
  name.textContent = key;
  line.append(name, ` ${what}`);
  return line;
}));
document.body.append(help);

function step(by) {
  const hits = [...document.querySelectorAll(".hit")];
  const at = hits.indexOf(document.activeElement.closest(".hit"));
  hits[Math.min(Math.max(at + by, 0), hits.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const hit = document.activeElement.closest(".hit");
  if (document.activeElement.matches("input, textarea, select")) return;
  if (event.key === "Enter" && hit && document.activeElement === hit) hit.querySelector("a").click();
  else if ((event.key === "r" || event.key === "w") && hit)
    hit.querySelector(`button[value=${event.key === "r" ? "right" : "wrong"}]`)?.click();
  else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

for (const block of document.querySelectorAll("pre.copy")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
  });
  block.after(button);
}

for (const form of document.querySelectorAll("form[data-drop]")) {
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", async (event) => {
    const [file] = event.dataTransfer.files;
    if (!file) return;
    event.preventDefault();
    form.elements.name.value = file.name;
    form.elements.content.value = await file.text();
  });
}

// An answer is read as the model writes it; the whole of it, with its sources, comes last.
for (const form of document.querySelectorAll("form[data-stream]")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const asked = new URLSearchParams(new FormData(form));
    const shown = document.querySelector("[data-answer]");
    history.replaceState(null, "", `?${asked}`);
    shown.replaceChildren(Object.assign(document.createElement("p"), { className: "answer" }));
    shown.firstChild.textContent = "…";
    try {
      const answer = await fetch(`${form.dataset.stream}?${asked}`, { headers: { Accept: "text/event-stream" } });
      if (!answer.ok) throw new Error((await answer.json()).error.message);
      let text = "", rest = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let part; !(part = await reader.read()).done; ) {
        const events = (rest + part.value).split("\n\n");
        rest = events.pop();
        for (const [, name, data] of events.map((each) => each.match(/^event: (\w+)\ndata: (.*)$/)).filter(Boolean)) {
          const value = JSON.parse(data);
          if (name === "text") shown.firstChild.textContent = text += value.text;
          else if (name === "answer") shown.innerHTML = value.html;
          else throw new Error(value.error.message);
        }
      }
    } catch (error) {
      shown.firstChild.textContent = error.message;
      shown.firstChild.className = "failed";
    }
  });
}
