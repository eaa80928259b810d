"use strict";
// Keyboard shortcuts, and no page load between two pairs. Without it, the same buttons send plain forms.
{
  const $ = (id) => document.getElementById(id);
  const trouble = (text) => { $("trouble").textContent = text; $("trouble").hidden = !text; };
  let busy = false; // do not grade the next pair before it is shown

  const show = (next) => {
    const had = $("desk").contains(document.activeElement);
    $("desk").replaceWith(next);
    $("told").textContent = `${$("yours")?.textContent ?? "undone"}. ${$("count").textContent}`;
    if (had) next.focus({ preventScroll: true });
    if (next.getBoundingClientRect().top < 0) next.scrollIntoView();
  };

  const send = async (form, button) => {
    if (busy) return;
    busy = true;
    const body = new URLSearchParams(new FormData(form, button));
    try {
      const answer = await fetch(form.action, { method: "POST", headers: { "X-Karat": "1" }, body });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("desk");
      if (next) { trouble(""); show(document.adoptNode(next)); }
      else if (answer.redirected) location.assign(answer.url); // the session has ended
      else trouble(page.querySelector("main [role=alert]")?.textContent ?? "Something went wrong.");
    } catch {
      trouble("The server does not respond: nothing was saved. Try again later.");
    } finally {
      busy = false;
    }
  };

  document.addEventListener("submit", (event) => {
    if (!$("desk").contains(event.target)) return;
    event.preventDefault();
    send(event.target, event.submitter);
  });

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.matches("textarea, input, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const remark = document.querySelector(".remark");
    if (event.key.toLowerCase() === "n" && remark) {
      remark.open = true;
      remark.querySelector("textarea").focus();
      event.preventDefault(); // do not type the n into the note
      return;
    }
    const button = [...document.querySelectorAll("[data-key]")].find((one) => one.dataset.key === event.key.toLowerCase());
    if (button) { event.preventDefault(); button.click(); }
  });

  document.documentElement.classList.add("with-keys");
}
