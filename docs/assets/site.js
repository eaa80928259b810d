// What is typed in a block of a terminal or of Python: without prompts and without what is printed.
const typed = (code) => {
  const copy = code.cloneNode(true);
  for (const other of copy.querySelectorAll(".gp, .go")) other.remove();
  return copy.textContent.split("\n").filter((line) => line.trim()).join("\n");
};
// What the theme leaves out for screen readers and keyboards, and what its button copies.
const complete = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  for (const nav of document.querySelectorAll(".md-code__nav:not([aria-label])"))
    nav.setAttribute("aria-label", `Copy ${nav.querySelector("button")?.dataset.clipboardTarget ?? ""}`);
  for (const button of document.querySelectorAll("button[data-clipboard-target]:not([data-clipboard-text])")) {
    const code = document.querySelector(button.dataset.clipboardTarget);
    if (code?.querySelector(".gp")) button.dataset.clipboardText = typed(code);
  }
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
};
complete();
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
