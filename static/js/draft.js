// The draft of the form: kept in this browser, restored on the next visit, gone once the run has started.
const KEY = "board-draft";
const NOT_KEPT = new Set(["once", "tab", "yaml"]);

function values(form) {
  return [...new FormData(form)].filter(([name]) => !NOT_KEPT.has(name) && !name.startsWith("was."));
}

function restore(form) {
  const kept = localStorage.getItem(KEY);
  if (!kept || location.search || !window.htmx) return;
  const now = new URLSearchParams(values(form)).toString();
  if (kept === now) return;
  const sent = { tab: "form", source: "form", once: form.elements.once.value };
  for (const [name, value] of new URLSearchParams(kept)) sent[name] = name in sent && name !== "source" ? [sent[name], value].flat() : value;
  window.htmx.ajax("POST", "/runs/new", { target: "#run-form", swap: "outerHTML", values: sent }).then(() => {
    document.getElementById("draft-note").hidden = false;
  });
}

/** Keeps the form's draft, if the page has the form. */
export function bindDraft() {
  const form = document.getElementById("run-form");
  if (!form) return;
  restore(form);
  document.addEventListener("input", (event) => {
    const current = event.target.form;
    if (current?.id === "run-form" && event.target.name !== "yaml" && current.elements.source.value === "form") {
      localStorage.setItem(KEY, new URLSearchParams(values(current)).toString());
    }
  });
  document.addEventListener("click", (event) => event.target.closest("[data-discard-draft]") && localStorage.removeItem(KEY));
  document.body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.getResponseHeader("HX-Redirect")) localStorage.removeItem(KEY);
  });
}
