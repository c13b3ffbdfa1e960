// What was asked for by hand and did not happen is said beside the button: the board refused, failed or is gone.
// Live blocks and the check while typing stay silent; the stream's chip speaks for them.
let note = null;

const byHand = (element) => element?.closest?.("#run-form") && !element.closest("#preflight");

// Reads the board's words out of a problem or of the page that tells about it.
function wordsOf(xhr) {
  if (!xhr?.responseText) return {};
  if (xhr.getResponseHeader("Content-Type")?.includes("json")) {
    try {
      return JSON.parse(xhr.responseText);
    } catch {
      return {};
    }
  }
  const page = new DOMParser().parseFromString(xhr.responseText, "text/html");
  const text = (id) => page.getElementById(id)?.textContent.trim();
  return { detail: text("problem-detail"), hint: text("problem-hint") };
}

function clear() {
  note?.remove();
  note = null;
}

function place(element) {
  const start = element.matches("button") ? null : document.querySelector("#preflight .start-row");
  if (start) start.before(note);
  else (element.closest("#first-demo, .page-head") ?? document.querySelector("#run-form .page-head")).after(note);
}

function show({ detail }, isLost) {
  const words = document.getElementById("request-failure");
  if (!words || !byHand(detail.elt)) return;
  clear();
  const { detail: said, hint } = isLost ? {} : wordsOf(detail.xhr);
  note = words.content.firstElementChild.cloneNode(true);
  note.querySelector("strong").textContent = isLost ? words.dataset.lost : words.dataset.failed;
  note.querySelector("[data-said]").textContent = said ?? "";
  note.querySelector("[data-hint]").textContent = hint ?? "";
  place(detail.elt);
  note.scrollIntoView({ block: "nearest" });
}

/** Listens to the requests of the form. */
export function bindFailures() {
  const { body } = document;
  body.addEventListener("htmx:responseError", (event) => show(event, false));
  body.addEventListener("htmx:sendError", (event) => show(event, true));
  body.addEventListener("htmx:timeout", (event) => show(event, true));
  body.addEventListener("htmx:beforeRequest", ({ detail }) => byHand(detail.elt) && clear());
  // A refusal whose answer is a whole page is no form to put in place of this one.
  body.addEventListener("htmx:beforeSwap", ({ detail }) => {
    if (detail.target?.id !== "run-form" || detail.xhr.status < 400 || !/<html[\s>]/i.test(detail.xhr.responseText)) return;
    detail.shouldSwap = false;
    detail.isError = true;
  });
  // The check that was under way replaces the panel, not the note in it.
  body.addEventListener("htmx:afterSwap", () => {
    if (!note || note.isConnected) return;
    const start = document.querySelector("#preflight .start-row");
    if (start) start.before(note);
    else note = null;
  });
  document.addEventListener("input", ({ target }) => byHand(target) && clear());
}
