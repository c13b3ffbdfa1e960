// The new-run form: verdicts beside the fields, later choices that stay unchosen, the focus after a refusal.

const touched = new Set();

// A choice of a later version can be reached and read, not chosen.
function refuseLater(event) {
  if (event.target.closest?.("input[aria-disabled=true]")) event.preventDefault();
}

// The verdict's words stand beside the field too: the same words in both places.
function copyVerdict() {
  const form = document.getElementById("run-form");
  const panel = document.getElementById("preflight");
  if (!form || !panel) return;
  for (const field of form.querySelectorAll(".field[data-field]")) clear(field);
  for (const row of panel.querySelectorAll(".check-row.bad[data-field]")) {
    const field = form.querySelector(`.field[data-field="${CSS.escape(row.dataset.field)}"]`);
    if (field && (touched.has(row.dataset.field) || row.dataset.code !== "missing")) mark(field, row);
  }
  const counts = panel.querySelector("[data-counts]").textContent;
  const say = document.getElementById("say");
  if (say.dataset.counts !== counts) {
    if (say.dataset.counts) say.textContent = counts;
    say.dataset.counts = counts;
  }
}

function control(field) {
  return field.querySelector("input[name]:not([type=hidden]), select[name], textarea[name]");
}

function clear(field) {
  field.querySelectorAll(".message").forEach((message) => message.remove());
  const input = control(field);
  input?.removeAttribute("aria-invalid");
  const help = input?.getAttribute("aria-describedby");
  if (help) input.setAttribute("aria-describedby", help.split(" ").filter((id) => !id.endsWith("-error")).join(" "));
}

function mark(field, row) {
  const input = control(field);
  const id = `f-${row.dataset.field.replaceAll(".", "-")}-error`;
  const message = document.createElement("p");
  message.className = "message";
  message.id = id;
  message.append(row.querySelector("svg").cloneNode(true));
  const text = row.querySelector("div > span:not(.visually-hidden)").cloneNode(true);
  const said = row.querySelector("small");
  if (said) {
    const hint = document.createElement("span");
    hint.className = "hint";
    hint.append(" ", ...said.cloneNode(true).childNodes);
    text.append(hint);
  }
  message.append(text);
  field.append(message);
  if (input && !input.matches("[type=radio]")) {
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", `${id} ${input.getAttribute("aria-describedby") ?? ""}`.trim());
  }
  const group = field.closest("details");
  if (group && touched.has(row.dataset.field)) group.open = true;
}

// A model brings its prompt format, as long as nobody chose another.
function suggestTemplate(event) {
  const select = event.target.closest?.("select[name=model_name_or_path]");
  const template = document.getElementById("f-template");
  const wanted = select?.selectedOptions[0]?.dataset.template;
  if (wanted && template && !touched.has("template")) template.value = wanted;
}

// Start that cannot start leads to what stands in its way.
function goToProblem(event) {
  const start = event.target.closest?.("#start[aria-disabled=true]");
  if (!start) return;
  const row = document.querySelector("#preflight .check-row.bad[data-field]");
  const field = row && document.querySelector(`.field[data-field="${CSS.escape(row.dataset.field)}"]`);
  if (!field) return;
  event.preventDefault();
  touched.add(row.dataset.field);
  copyVerdict();
  field.closest("details")?.setAttribute("open", "");
  (control(field) ?? field).focus();
  field.scrollIntoView({ block: "center" });
}

function openTarget() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (!target) return;
  for (let group = target.closest("details"); group; group = group.parentElement.closest("details")) group.open = true;
  target.focus();
  target.scrollIntoView({ block: "center" });
}

/** Listens to the form, if the page has one. */
export function bindForm() {
  document.addEventListener("click", refuseLater, true);
  document.addEventListener("click", goToProblem);
  document.addEventListener("change", suggestTemplate, true);
  document.addEventListener("input", ({ target }) => {
    if (!target.name) return;
    touched.add(target.name);
    const isText = target.matches("input[type=text], textarea");
    if (isText) target.closest(".field")?.classList.toggle("changed", target.value !== "" && target.value !== target.placeholder);
  });
  addEventListener("hashchange", openTarget);
  document.body.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.elt?.id === "preflight") copyVerdict();
    document.querySelector("#run-form [data-focus]")?.focus();
  });
  document.querySelector("[data-focus]")?.focus();
  openTarget();
}
