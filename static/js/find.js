// Finding a setting: by label, key or help, whatever group it is in.

function show(form, words) {
  for (const group of form.querySelectorAll(".groups > .group")) {
    let hits = 0;
    for (const field of group.querySelectorAll(".field")) {
      const text = `${field.dataset.field} ${field.textContent}`.toLowerCase();
      const isHit = words.every((word) => text.includes(word));
      field.hidden = !isHit;
      hits += isHit;
    }
    group.hidden = hits === 0;
    if (words.length) group.open = hits > 0;
  }
}

/** Listens to the search of the form. */
export function bindFind() {
  document.addEventListener("input", (event) => {
    if (event.target.id !== "find-setting") return;
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    show(event.target.form, words);
    if (!words.length) for (const group of event.target.form.querySelectorAll(".groups > .group")) group.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.id === "find-setting" && event.key === "Enter") {
      event.preventDefault();
      event.target.form.querySelector(".group[open]:not([hidden]) .field:not([hidden]) [name]")?.focus();
    }
  });
}
