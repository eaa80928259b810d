
"use strict";
// Optional: without it, every number is still on the page, in its original order.
{
  const FOLDED = 12; // rows that a long table shows at first

  // Theme: the system setting, light, or dark.
  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const remembered = () => { try { return localStorage.getItem("karat-theme"); } catch { return null; } };
  const setTheme = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
    try { localStorage.setItem("karat-theme", theme); } catch { /* no storage: not remembered */ }
  };
  let theme = themes.includes(remembered()) ? remembered() : "auto";
  setTheme(theme);
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    setTheme(theme);
  });

  const make = (name, properties) => Object.assign(document.createElement(name), properties);

  // The number of a cell, or its text if it has none.
  const NUMBER = /^[+−-]?\d[\d,]*(\.\d+)?/;
  const number = (cell) => {
    if (cell.dataset.v !== undefined) return Number(cell.dataset.v);
    const found = NUMBER.exec(cell.textContent.trim());
    return found ? Number(found[0].replace("−", "-").replaceAll(",", "")) : NaN;
  };
  const words = (cell) => cell.textContent.trim();
  const empty = (cell) => ["", "–"].includes(words(cell));

  const sorted = (rows, column, down) => {
    const cells = new Map(rows.map((row) => [row, row.cells[column]]));
    const there = rows.filter((row) => !empty(cells.get(row)));
    const numeric = there.every((row) => !Number.isNaN(number(cells.get(row))));
    const compare = numeric
      ? (a, b) => number(cells.get(a)) - number(cells.get(b))
      : (a, b) => words(cells.get(a)).localeCompare(words(cells.get(b)), "en", { numeric: true });
    there.sort(down ? (a, b) => compare(b, a) : compare);
    return [...there, ...rows.filter((row) => empty(cells.get(row)))]; // unknown values come last
  };

  const enhance = (table) => {
    const body = table.tBodies[0];
    const original = [...body.rows];
    if (original.length < 3) return;
    const state = { order: original, text: "", open: original.length <= FOLDED };
    const update = () => {
      const matching = state.order.filter((row) => row.textContent.toLowerCase().includes(state.text));
      const shown = new Set(state.open || state.text ? matching : matching.slice(0, FOLDED));
      for (const row of original) row.hidden = !shown.has(row);
      body.append(...state.order);
      return matching.length;
    };

    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (!head.textContent) return; // nothing to click
      const sorter = make("button", { type: "button", textContent: head.textContent });
      head.replaceChildren(sorter);
      sorter.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        const next = { null: "ascending", ascending: "descending" }[before];
        if (next) head.setAttribute("aria-sort", next);
        state.order = next ? sorted(original, column, next === "descending") : original;
        update();
      });
    });

    if (state.open) return;
    const frame = table.parentElement;
    const count = make("span", { role: "status" });
    const field = make("input", { type: "search", placeholder: "Filter rows" });
    field.setAttribute("aria-label", `Filter rows. ${frame.getAttribute("aria-label")}`);
    const more = make("button", { type: "button", className: "more", textContent: `Show all ${original.length} rows` });
    const line = make("div", { className: "filter" });
    line.append(field, count);
    frame.before(line);
    frame.after(more);
    field.addEventListener("input", () => {
      state.text = field.value.trim().toLowerCase();
      const matching = update();
      count.textContent = state.text ? `${matching} of ${original.length} rows` : "";
      more.hidden = Boolean(state.text);
    });
    more.addEventListener("click", () => {
      state.open = !state.open;
      more.textContent = state.open ? "Show fewer rows" : `Show all ${original.length} rows`;
      update();
    });
    update();
  };
  document.querySelectorAll("table.grid").forEach(enhance);

  // Shared texts and long ids are written once and filled in when an example is opened.
  const parts = (line) => line.firstChild.textContent.split("\t"); // before the id, the id, after it
  const passages = new Map([...document.querySelectorAll(".passages li")].map((line) => {
    const [number, name] = parts(line).map((part) => part.trim());
    return [number || name, { name, text: line.querySelector("p") }];
  }));
  const named = (line) => parts(line)[1]?.trim();
  const missing = (example) => {
    const lines = [...example.querySelectorAll(".listings li")].filter(named);
    const own = new Map();
    for (const line of lines) {
      const [name, text] = [named(line), line.querySelector("p")];
      if (text) own.set(name, own.has(name) && own.get(name)?.textContent !== text.textContent ? null : text); // two texts: neither
    }
    const found = lines.map((line) => [line, passages.get(named(line)) ?? { name: named(line), text: own.get(named(line)) }]);
    return found.filter(([line, { name, text }]) => name !== named(line) || (text && !line.querySelector("p")));
  };
  document.addEventListener("toggle", ({ target }) => {
    if (!target.matches(".example")) return;
    for (const [line, { name, text }] of missing(target)) {
      line.firstChild.textContent = parts(line).map((part, place) => (place === 1 ? name : part)).join("\t");
      if (text && !line.querySelector("p")) line.append(text.cloneNode(true));
    }
  }, true); // it does not bubble
  const folded = document.querySelectorAll(".passages");
  for (const list of folded) list.open = false;
  addEventListener("beforeprint", () => { for (const list of folded) list.open = true; }); // print all of them

  // Examples: filter by text and label, and show a page at a time. Filter and page are in the address, so that it can
  // be shared.
  const SIZES = [20, 100, 0]; // of a page; 0: all on one
  const filtered = (section) => {
    const place = section.querySelector(".section").id;
    const examples = [...section.querySelectorAll(".example")];
    const pairs = (example) => [...example.querySelectorAll("dl + dl dt")].map((name) => [words(name), words(name.nextElementSibling)]);
    const outcome = (example) => [...example.querySelectorAll("summary small")].map((said) => ["outcome", words(said)]);
    const labels = new Map(examples.map((example) => [example, new Map([...outcome(example), ...pairs(example)])]));
    let heard; // lower-case text of each example, made on first use
    const says = (example) => {
      heard ??= new Map(examples.map((e) => [e, [e.textContent, ...missing(e).map(([, { name, text }]) => `${name} ${text?.textContent}`)].join(" ").toLowerCase()]));
      return heard.get(example);
    };
    const values = new Map();
    for (const own of labels.values()) for (const [name, value] of own) values.set(name, (values.get(name) ?? new Set()).add(value));
    const asked = new Map();
    const line = make("div", { className: "filter" });
    const count = make("span", { role: "status" });
    const fields = new Map();
    let [page, size] = [1, SIZES[0]];

    const fitting = () => {
      const text = (asked.get("text") ?? "").toLowerCase();
      return examples.filter((example) => {
        const own = labels.get(example);
        const fits = [...asked].every(([name, value]) => name === "text" || own.get(name) === value);
        return fits && (!text || says(example).includes(text));
      });
    };
    const update = (write) => {
      const found = fitting();
      const all = new Set(found);
      const pages = Math.max(Math.ceil(found.length / (size || found.length)), 1) || 1;
      page = Math.min(Math.max(page, 1), pages);
      const first = (page - 1) * size;
      const shown = new Set(size ? found.slice(first, first + size) : found);
      for (const example of examples) {
        example.hidden = !all.has(example);
        example.classList.toggle("later", !shown.has(example));
      }
      count.textContent = asked.size ? `${found.length} of ${examples.length} queries` : `${examples.length} queries`;
      turn(`${shown.size ? first + 1 : 0}–${first + shown.size} of ${found.length}`, pages);
      const [filter, at] = [[...asked], page > 1 ? [["page", page]] : []];
      const query = new URLSearchParams([...filter, ...at]);
      if (write) history.replaceState(null, "", `#${place}${query.size ? `&${query}` : ""}`);
    };
    const ask = (name, value) => { value ? asked.set(name, value) : asked.delete(name); page = 1; };

    // Above and below the list: previous, next, and page size.
    const go = (to) => { page = to; update(true); };
    const pagers = ["Pages of queries", "Pages of queries, below the list"].map((name, below) => {
      const bar = make("nav", { className: "pager" });
      bar.setAttribute("aria-label", name);
      const back = make("button", { type: "button", textContent: "Previous" });
      const on = make("button", { type: "button", textContent: "Next" });
      const where = make("span", {});
      const many = make("select", {});
      many.setAttribute("aria-label", "Queries per page");
      many.append(...SIZES.map((n) => new Option(n ? `${n} per page` : "all", n)));
      const start = () => { // after a click below the list, go to its top
        section.querySelector(".example:not(.later) summary")?.focus({ preventScroll: true });
        line.scrollIntoView();
      };
      if (!below) where.setAttribute("aria-live", "polite");
      back.addEventListener("click", () => { if (page > 1) { go(page - 1); if (below) start(); } });
      on.addEventListener("click", () => { if (on.ariaDisabled === "false") { go(page + 1); if (below) start(); } });
      many.addEventListener("change", () => { size = Number(many.value); go(1); });
      bar.append(back, where, on, ...(below ? [] : [many]));
      return { bar, back, on, where };
    });
    const turn = (range, pages) => {
      for (const { bar, back, on, where } of pagers) {
        where.textContent = range;
        // aria-disabled, because a disabled button would lose the focus.
        for (const [button, end] of [[back, page === 1], [on, page === pages]]) button.setAttribute("aria-disabled", end);
        bar.hidden = examples.length <= SIZES[0];
      }
    };

    const search = make("input", { type: "search", placeholder: "Search queries and hits" });
    search.setAttribute("aria-label", "Search queries and hits");
    fields.set("text", search);
    search.addEventListener("input", () => { ask("text", search.value.trim()); update(true); });
    line.append(search);
    for (const [name, known] of values) {
      if (known.size < 2 || known.size > 30) continue;
      const field = make("select", {});
      field.setAttribute("aria-label", `Filter by ${name}`);
      field.append(new Option(`${name}: all`, ""), ...[...known].sort().map((value) => new Option(value, value)));
      field.addEventListener("change", () => { ask(name, field.value); update(true); });
      fields.set(name, field);
      line.append(field);
    }
    line.append(count);
    examples[0].before(line, pagers[0].bar);
    examples.at(-1).after(pagers[1].bar);

    const read = () => {
      const [anchor, ...rest] = location.hash.slice(1).split("&");
      const example = examples.find(({ id }) => id === anchor);
      if (example) { // a link to one query
        if (example.hidden) asked.clear();
        page = size ? Math.floor(fitting().indexOf(example) / size) + 1 : 1;
      } else if (anchor !== place || !rest.length) return;
      else {
        asked.clear();
        const given = new URLSearchParams(rest.join("&"));
        for (const [name, value] of given) if (fields.has(name)) ask(name, value);
        page = Number(given.get("page")) || 1;
      }
      for (const [name, field] of fields) {
        const value = asked.get(name) ?? "";
        field.value = value;
        if (field.value !== value) field.append(new Option(value, value, false, true)); // a value that is not on this page
      }
      update(false);
      (example ?? section).scrollIntoView();
    };
    update(false);
    read();
    addEventListener("hashchange", read);
  };
  for (const section of document.querySelectorAll("section:has(> .example:not(.alone))")) filtered(section);
  const reveal = () => {
    const folded = document.getElementById(location.hash.slice(1).split("&")[0])?.closest("details");
    if (folded) folded.open = true;
  };
  reveal();
  addEventListener("hashchange", reveal);

  // Only scrollable tables are tab stops.
  const frames = document.querySelectorAll(".scroll");
  const stops = new ResizeObserver((changes) => {
    for (const { target } of changes) target.tabIndex = target.scrollWidth > target.clientWidth ? 0 : -1;
  });
  frames.forEach((frame) => stops.observe(frame));

  // On a narrow page the contents are folded; on a wide one they are always open.
  const narrow = matchMedia("(max-width: 68rem)");
  const fold = () => { for (const contents of document.querySelectorAll(".contents details")) contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
}
