"use strict";
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.setAttribute("aria-sort", "none");
    head.tabIndex = 0;
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.order === undefined ? cell.textContent : Number(cell.dataset.order);
      };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (typeof x === typeof y) {
          return typeof x === "number" ? x - y : x.localeCompare(y, "en", { numeric: true });
        }
        return typeof x === "number" ? -1 : 1;
      };
      const rows = [...body.rows].sort(order);
      body.append(...(down ? rows.reverse() : rows));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter") sort();
    });
  });
}
for (const filter of document.querySelectorAll(".filter")) {
  const rows = [...filter.parentElement.querySelectorAll("tbody tr")];
  const input = filter.querySelector("input");
  const output = filter.querySelector("output");
  filter.hidden = false;
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    output.textContent = words.length ? `${shown} of ${rows.length}` : "";
  });
}
