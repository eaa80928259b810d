"use strict";
// Keys for a list of hits: j and k move, the others press the buttons of the current hit. On the page of a query, forms
// are sent without loading the page. Without this script, the same buttons send plain forms.
{
  const $ = (id) => document.getElementById(id);
  const hits = () => [...document.querySelectorAll("[data-hit]")];
  const trouble = (text) => { $("trouble").textContent = text; $("trouble").hidden = !text; };
  let current = "", busy = false;

  const go = (hit) => {
    if (!hit) return;
    current = hit.dataset.hit;
    hit.focus({ preventScroll: true });
    hit.scrollIntoView({ block: "nearest" });
  };
  const here = () => hits().find((hit) => hit.dataset.hit === current);
  const move = (step) => {
    const all = hits(), at = all.indexOf(here());
    go(at < 0 ? all[step > 0 ? 0 : all.length - 1] : all[at + step]);
  };

  const send = async (form, button) => {
    if (busy) return;
    busy = true;
    current = form.closest("[data-hit]").dataset.hit;
    const body = new URLSearchParams(new FormData(form, button)), undone = button?.value === "undo";
    try {
      const answer = await fetch(form.action, { method: "POST", headers: { "X-Karat": "1" }, body });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("grading");
      if (next) {
        $("effect").replaceChildren(...page.getElementById("effect").childNodes); // it stays, so that it is read aloud
        for (const hit of next.querySelectorAll("[data-hit]")) $(hit.id)?.replaceWith(document.adoptNode(hit));
        trouble("");
        const all = hits(), at = all.indexOf(here());
        go(undone ? here() : all[at + 1] ?? here());
      } else if (answer.redirected) location.assign(answer.url); // a name is needed, or the session has ended
      else trouble(page.querySelector("main [role=alert]")?.textContent ?? "Something went wrong.");
    } catch {
      trouble("The server does not respond: nothing was saved. Try again later.");
    } finally {
      busy = false;
    }
  };

  document.addEventListener("submit", (event) => {
    if (!$("grading")?.contains(event.target)) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });
  document.addEventListener("focusin", (event) => { current = event.target.closest("[data-hit]")?.dataset.hit ?? current; });
  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches("textarea, select, input:not([type=radio])")) {
      if (event.key === "Escape") go(event.target.closest("[data-hit]"));
      return;
    }
    const key = event.key.toLowerCase(), inside = event.target.closest("[data-hit]");
    const arrow = inside && !event.target.matches("input");
    if (key === "j" || (arrow && key === "arrowdown")) { event.preventDefault(); move(1); return; }
    if (key === "k" || (arrow && key === "arrowup")) { event.preventDefault(); move(-1); return; }
    const hit = here(), remark = hit?.querySelector(".remark");
    if (key === "n" && remark) {
      event.preventDefault(); // do not type the n into the note
      remark.open = true;
      remark.querySelector("textarea").focus();
      return;
    }
    const button = [...(hit?.querySelectorAll("[data-key]") ?? [])].find((one) => one.dataset.key === key);
    if (button) { event.preventDefault(); button.click(); }
  });

  document.documentElement.classList.add("with-keys");
}
