// What the theme leaves out for screen readers and keyboards.
const complete = () => {
  document.querySelector(".md-search[role=dialog]")?.setAttribute("aria-label", "Search");
  for (const nav of document.querySelectorAll(".md-code__nav:not([aria-label])"))
    nav.setAttribute("aria-label", `Copy ${nav.querySelector("button")?.dataset.clipboardTarget ?? ""}`);
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) table.tabIndex = 0;
};
complete();
new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });
