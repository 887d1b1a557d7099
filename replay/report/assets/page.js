"use strict";
(() => {
  const told = JSON.parse(document.getElementById("values").textContent);
  const rows = [...document.querySelectorAll("tr.line")];
  const table = document.querySelector("table.lines");
  const only = document.getElementById("only");
  const keys = document.getElementById("keys");
  let at = -1;

  const make = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const pair = (title, left, right) => {
    const box = make("div");
    box.append(make("h3", title));
    const both = make("div", undefined, "pair");
    for (const value of [left, right]) both.append(value === null ? make("div") : make("pre", value));
    box.append(both);
    return box;
  };
  const valuesOf = (number) => {
    const line = told.lines[number];
    const row = make("tr", undefined, "values " + rows[number].classList[1]);
    const cell = make("td");
    cell.colSpan = 5;
    for (const said of line.said) cell.append(make("p", said));
    for (const field of line.fields) cell.append(pair(field.pointer || "(whole value)", field.left, field.right));
    if (line.more) cell.append(make("p", `… ${line.more.toLocaleString("en")} more fields differ`));
    const side = (name, what) => (line[name] === null ? null : line[name][what]);
    cell.append(pair("arguments", side("left", "arguments"), side("right", "arguments")));
    if (side("left", "observation") !== null || side("right", "observation") !== null)
      cell.append(pair("observation", side("left", "observation"), side("right", "observation")));
    row.append(cell);
    return row;
  };
  const isOpen = (row) => row.getAttribute("aria-expanded") === "true";
  const toggle = (number, wanted) => {
    const row = rows[number];
    const open = wanted === undefined ? !isOpen(row) : wanted;
    if (open === isOpen(row)) return;
    row.setAttribute("aria-expanded", String(open));
    if (open) row.after(valuesOf(number));
    else row.nextElementSibling.remove();
  };
  const hidden = (row) => only.checked && row.classList.contains("same");
  const go = (number) => {
    at = number;
    rows[at].focus({ preventScroll: true });
    rows[at].scrollIntoView({ block: "nearest" });
  };
  const step = (by, wanted) => {
    for (let next = at + by; next >= 0 && next < rows.length; next += by)
      if (!hidden(rows[next]) && wanted(rows[next])) return go(next);
  };
  const differences = (show) => {
    only.checked = show;
    table.classList.toggle("only", show);
  };
  const jump = () => {
    const row = document.getElementById(location.hash.slice(1));
    const number = rows.indexOf(row);
    if (number < 0) return;
    toggle(number, true);
    go(number);
    row.scrollIntoView({ block: "start" });
  };

  rows.forEach((row, number) => row.addEventListener("click", () => {
    if (!String(getSelection())) { at = number; toggle(number); }
  }));
  only.addEventListener("change", () => differences(only.checked));
  document.getElementById("help").addEventListener("click", () => keys.showModal());
  keys.addEventListener("click", () => keys.close());
  addEventListener("hashchange", jump);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
    const any = () => true, differs = (row) => !row.classList.contains("same");
    const acts = {
      j: () => step(1, any), k: () => step(-1, any), n: () => step(1, differs), p: () => step(-1, differs),
      d: () => differences(!only.checked), "?": () => keys.showModal(),
      Escape: () => rows.forEach((_, number) => toggle(number, false)),
      Enter: () => { if (at >= 0 && document.activeElement === rows[at]) toggle(at); },
    };
    const act = acts[event.key];
    if (!act || (event.key === "Enter" && document.activeElement !== rows[at])) return;
    event.preventDefault();
    act();
  });
  jump();
})();
