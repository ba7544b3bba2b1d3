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

  // Cells as Markdown: numbers right, a bar does not end a cell.
  function markdown(table) {
    var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
    function line(cells) {
      return "| " + Array.prototype.map.call(cells, function (cell) {
        var struck = cell.querySelector("s") ? "(" + cell.textContent.trim() + ")" : cell.textContent.trim();
        return struck.replace(/\s+/g, " ").replace(/\|/g, "\\|");
      }).join(" | ") + " |";
    }
    var rule = "|" + heads.map(function (head) { return head.classList.contains("n") ? "--:" : "---"; }).join("|") + "|";
    return [line(heads), rule].concat(Array.prototype.map.call(table.tBodies[0].rows, function (row) { return line(row.cells); })).join("\n") + "\n";
  }
  // Files opened from a disk have no clipboard in some browsers, so a selection stands in.
  function copy(text, done) {
    function fallback() {
      var area = document.createElement("textarea");
      area.value = text;
      document.body.appendChild(area);
      area.select();
      try { if (document.execCommand("copy")) { done(); } } finally { area.remove(); }
    }
    if (navigator.clipboard && navigator.clipboard.writeText) { navigator.clipboard.writeText(text).then(done, fallback); }
    else { fallback(); }
  }
  document.querySelectorAll(".sheet").forEach(function (sheet) {
    var scroll = sheet.querySelector(".scroll"), table = sheet.querySelector("table");
    var tools = document.createElement("div"), more = document.createElement("span"), button = document.createElement("button");
    tools.className = "tools";
    more.className = "more";
    button.type = "button";
    button.textContent = "Copy as Markdown";
    button.addEventListener("click", function () {
      copy(markdown(table), function () {
        button.textContent = "Copied";
        setTimeout(function () { button.textContent = "Copy as Markdown"; }, 1500);
      });
    });
    tools.appendChild(more);
    tools.appendChild(button);
    sheet.appendChild(tools);
    function fits() {
      var hidden = scroll.scrollWidth - scroll.clientWidth;
      more.textContent = hidden > 1 ? "More columns: scroll " + (scroll.scrollLeft > hidden - 2 ? "left ←" : "right →") : "";
    }
    scroll.addEventListener("scroll", fits, { passive: true });
    if (window.ResizeObserver) { new ResizeObserver(fits).observe(scroll); } else { fits(); }
  });

  var opened = [];
  addEventListener("beforeprint", function () {
    opened = Array.prototype.filter.call(document.querySelectorAll("details:not(.bulk)"), function (part) { return !part.open; });
    opened.forEach(function (part) { part.open = true; });
  });
  addEventListener("afterprint", function () { opened.forEach(function (part) { part.open = false; }); });
}());
