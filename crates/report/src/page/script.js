(function () {
  "use strict";
  var root = document.documentElement;
  var button = document.getElementById("theme");
  var stored = null;
  try { stored = localStorage.getItem("segtrt-theme"); } catch (e) { /* a file without storage */ }
  if (stored === "light" || stored === "dark") { root.dataset.theme = stored; }
  function dark() {
    if (root.dataset.theme) { return root.dataset.theme === "dark"; }
    return matchMedia("(prefers-color-scheme: dark)").matches;
  }
  function name() { button.textContent = dark() ? "Light page" : "Dark page"; }
  button.hidden = false;
  name();
  button.addEventListener("click", function () {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("segtrt-theme", root.dataset.theme); } catch (e) { /* as above */ }
    name();
  });

  function key(row, column) {
    var cell = row.cells[column];
    if (!cell || cell.classList.contains("none")) { return null; }
    return cell.dataset.v !== undefined ? Number(cell.dataset.v) : cell.textContent.trim().toLowerCase();
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
      var sort = document.createElement("button");
      sort.type = "button";
      while (head.firstChild) { sort.appendChild(head.firstChild); }
      head.appendChild(sort);
      head.setAttribute("aria-sort", "none");
      sort.addEventListener("click", function () {
        // Numbers begin with the largest, words with A.
        var first = head.classList.contains("n") ? "descending" : "ascending";
        var other = first === "ascending" ? "descending" : "ascending";
        var order = head.getAttribute("aria-sort") === first ? other : first;
        Array.prototype.forEach.call(table.tHead.rows[0].cells, function (cell) { cell.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", order);
        var sign = order === "ascending" ? 1 : -1;
        var body = table.tBodies[0];
        Array.prototype.slice.call(body.rows)
          .map(function (row, at) { return { row: row, key: key(row, column), at: at }; })
          // What was not measured is last either way.
          .sort(function (a, b) {
            if (a.key === null || b.key === null) { return (a.key === null) - (b.key === null) || a.at - b.at; }
            return sign * compare(a.key, b.key) || a.at - b.at;
          })
          .forEach(function (entry) { body.appendChild(entry.row); });
      });
    });
  });

  var opened = [];
  addEventListener("beforeprint", function () {
    opened = Array.prototype.filter.call(document.querySelectorAll("details:not(.bulk)"), function (part) { return !part.open; });
    opened.forEach(function (part) { part.open = true; });
  });
  addEventListener("afterprint", function () { opened.forEach(function (part) { part.open = false; }); });
}());
