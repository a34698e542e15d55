// Keys and copying: every page works without this file.
"use strict";
const keys = {
  "/": () => (document.querySelector("input[type=search]") ?? { focus: () => location.assign(document.querySelector("a.brand").href) }).focus(),
  j: () => step(1),
  k: () => step(-1),
  "?": () => help.open ? help.close() : help.showModal(),
};
const help = document.createElement("dialog");
const said = [["/", "search"], ["j, k", "next and previous hit or proposal"], ["Enter", "open it"], ["r, w", "judge the hit right, wrong"], ["a, x, s", "approve, refuse, choose the proposal"], ["?", "these keys"], ["Esc", "close this"]];
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

// An open menu is closed by Escape, or by what is done elsewhere.
for (const menu of document.querySelectorAll("details.menu")) {
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const hit = document.activeElement.closest(".hit");
  if (document.activeElement.matches("input:not([type=checkbox]), textarea, select")) return;
  if (event.key === "Enter" && hit && document.activeElement === hit) hit.querySelector("a").click();
  else if (hit?.querySelector(`[data-key="${CSS.escape(event.key)}"]`)) hit.querySelector(`[data-key="${CSS.escape(event.key)}"]`).click();
  else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

function offerCopies(within) {
  for (const block of within.querySelectorAll("pre.copy")) {
    const button = made("button", { type: "button", className: "quiet" }, "Copy");
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").textContent);
      button.textContent = "Copied";
    });
    block.after(button);
  }
}
offerCopies(document);

// The events of an answer that is sent in parts, to the last; one that is refused or breaks off throws.
async function* events(answer, last) {
  const failed = ({ message, hint }) => new Error([message, hint].filter(Boolean).join(": "));
  if (!answer.ok) throw failed((await answer.json()).error);
  let rest = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let part; !(part = await reader.read()).done; ) {
    const found = (rest + part.value).split("\n\n");
    rest = found.pop();
    for (const [, name, data] of found.map((each) => each.match(/^event: (\w+)\ndata: (.*)$/s)).filter(Boolean)) {
      const value = JSON.parse(data);
      if (name === "error") throw failed(value.error);
      yield [name, value];
      if (name === last) return;
    }
  }
  throw new TypeError();
}

// Of a connection that breaks, browsers throw a TypeError.
const why = (error) => error instanceof TypeError ? "The connection to the server was lost. Reload the page to see whether it is there again, or start it again." : error.message;

function made(tag, fields, ...inside) {
  const element = Object.assign(document.createElement(tag), fields);
  element.append(...inside);
  return element;
}

// Text files: one fills the form; several are put one after the other, when the form is sent.
for (const form of document.querySelectorAll("form[data-drop]")) {
  const files = made("input", { type: "file", multiple: true }), said = made("div", {});
  let waiting = [];
  const take = async (chosen) => {
    waiting = chosen.length > 1 ? chosen : [];
    for (const name of ["name", "content"]) form.elements[name].disabled = waiting.length > 0;
    said.replaceChildren(waiting.length ? `${waiting.length} files: ${waiting.map((each) => each.name).join(", ")}. Choose their dataset, and put them.` : "");
    if (chosen.length !== 1) return;
    try {
      form.elements.content.value = await textOf(chosen[0]);
      form.elements.name.value = chosen[0].name;
    } catch (error) {
      said.replaceChildren(made("p", { className: "failed" }, `${chosen[0].name}: ${error.message}`));
    }
  };
  said.setAttribute("role", "status");
  form.prepend(made("label", {}, "Text files, which you can also drop here ", files), said);
  files.addEventListener("change", () => take([...files.files]));
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  form.addEventListener("submit", (event) => {
    if (!waiting.length) return;
    event.preventDefault();
    put(form, waiting, said);
  });
}

async function textOf(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch { /* it says why below */ }
  throw new Error("this is no text in UTF-8; `triptych put` reads more formats");
}

async function put(form, files, said) {
  const lines = [];
  let done = 0;
  for (const file of files) {
    try {
      const body = new URLSearchParams(new FormData(form));
      body.set("name", file.name);
      body.set("content", await textOf(file));
      const answer = await fetch(form.getAttribute("action"), { method: "POST", body, redirect: "manual", headers: { Accept: "text/html" } });
      if (answer.type === "opaqueredirect") done += 1;
      else {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        lines.push(`${file.name}: ${page.querySelector("[role=alert] h1, p[role=alert]")?.textContent ?? answer.status}`);
      }
    } catch (error) {
      lines.push(`${file.name}: ${why(error)}`);
    }
    const link = made("a", { href: document.querySelector("a.brand").href }, "Look at them");
    said.replaceChildren(`${done} of ${files.length} files were put. `, done ? link : "", ...lines.map((line) => made("p", { className: "failed" }, line)));
  }
}

// Where one is, in the menu too. Back leads to what was there, made again by the server.
let here = location.pathname + location.search;
function be(url, step = "pushState") {
  history[step](null, "", url);
  here = location.pathname + location.search;
  for (const link of document.querySelectorAll("nav[aria-label=Console] a"))
    link.pathname === location.pathname ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
}
addEventListener("popstate", () => { if (here !== location.pathname + location.search) location.reload(); });

// The part of a page that lists, without the rest; an older request is given up.
let older;
async function list(url) {
  older?.abort();
  older = new AbortController();
  const shown = document.querySelector("[data-results]");
  try {
    const answer = await fetch(url, { signal: older.signal, headers: { "X-Part": "results", Accept: "text/html" } });
    if (!answer.ok) return false;
    shown.innerHTML = await answer.text();
  } catch { return false; } // given up, or the server is away: Enter says so
  offerCopies(shown);
  document.querySelector("[data-said]").textContent = shown.querySelector("h2")?.textContent ?? "";
  return true;
}
const typed = (form) => new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));

// What is found is shown while it is typed. Enter loads the page: only that counts as asked.
for (const form of document.querySelectorAll("form[data-live]")) {
  let wait, isNew = true;
  form.addEventListener("input", () => {
    clearTimeout(wait);
    wait = setTimeout(async () => {
      const url = `${form.getAttribute("action")}?${typed(form)}`;
      if (!(await list(url))) return;
      be(url, isNew ? "pushState" : "replaceState");
      isNew = false;
    }, 200);
  });
  form.addEventListener("change", (event) => { isNew ||= event.target.type === "search"; });
  form.addEventListener("submit", () => { clearTimeout(wait); older?.abort(); });
}

// An answer is read as the model writes it; the whole of it, with its sources, comes last.
document.addEventListener("submit", async (event) => {
  const form = event.target, button = event.submitter;
  if (!button?.matches("[data-ask]")) return;
  event.preventDefault();
  const fields = typed(form), shown = document.querySelector("[data-answer]"), waits = made("p", { className: "answer" }, "…");
  const stream = form.getAttribute("data-stream"), headers = { Accept: "text/event-stream" }, posts = form.method === "post";
  posts ? shown.append(made("p", { className: "turn", dir: "auto" }, made("strong", {}, fields.get("q"))), waits) : shown.replaceChildren(waits);
  if (posts) {
    document.getElementById("q").value = fields.get("q");
    list(`${form.getAttribute("action")}&q=${encodeURIComponent(fields.get("q"))}`);
  } else {
    be(`${button.getAttribute("formaction")}?${fields}`);
    list(location.href);
  }
  try {
    const answer = await (posts ? fetch(stream, { method: "POST", body: fields, headers }) : fetch(`${stream}?${fields}`, { headers }));
    let text = "";
    for await (const [name, value] of events(answer, "answer")) {
      if (name === "text") waits.textContent = text += value.text;
      else shown.innerHTML = value.html;
    }
  } catch (error) {
    const failed = made("p", { className: "failed" }, why(error));
    failed.setAttribute("role", "alert");
    waits.textContent === "…" ? waits.replaceWith(failed) : shown.append(failed);
  }
});

// Work that lasts is watched, then the page says what it came to. Cancel closes the connection, which
// ends it on the server. (form.dataset is not the attributes here, but the form's field of that name.)
document.addEventListener("submit", async (event) => {
  const form = event.target, main = document.querySelector("main");
  if (!form.matches("[data-progress]")) return;
  event.preventDefault();
  const stop = new AbortController();
  const bar = made("progress", { ariaLabel: "Progress" }), far = made("span", {}, "…"), end = made("p", {});
  const cancel = made("button", { type: "button", className: "quiet" }, "Cancel");
  const shown = made("div", { className: "running" }, bar, " ", far, " ", cancel);
  const buttons = document.querySelectorAll("form[data-progress] button");
  end.setAttribute("role", "status");
  cancel.addEventListener("click", () => stop.abort());
  document.querySelectorAll(".running").forEach((each) => each.remove());
  form.after(shown);
  shown.append(end);
  buttons.forEach((each) => each.disabled = true);
  cancel.focus();
  let done = 0;
  try {
    const body = new URLSearchParams(new FormData(form));
    const answer = await fetch(form.getAttribute("data-progress"), { method: "POST", body, signal: stop.signal, headers: { Accept: "text/event-stream" } });
    for await (const [name, value] of events(answer, "end")) {
      if (name === "end") {
        main.innerHTML = value.html;
        be(form.getAttribute("action"), "replaceState");
        main.querySelector("[role=status], [role=alert]").focus();
        return;
      }
      const [first] = value.phases;
      if (first && first.total !== null) Object.assign(bar, { max: Math.max(first.total, 1), value: first.done });
      const lines = value.phases.map((each) => `${each.phase}: ${each.done}${each.total === null ? "" : ` of ${each.total}`}`);
      far.textContent = [...lines, value.used].filter(Boolean).join(", ") || "…";
      done = Math.max(...value.phases.map((each) => each.done), done);
    }
  } catch (error) {
    const cut = stop.signal.aborted ? "Cancelled." : why(error);
    end.textContent = !done ? cut : `${cut} What was made so far is kept; start it again to go on.`;
  }
  if (!done) far.remove();
  end.append(" ", made("a", { href: form.getAttribute("action") }, "See how things stand now"));
  bar.remove();
  cancel.remove();
  buttons.forEach((each) => each.disabled = false);
  end.querySelector("a").focus();
});
