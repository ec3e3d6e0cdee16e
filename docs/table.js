// Tables that a click on a head sorts, and that words and choices filter: the atlas of methods, and all claims of the gallery.
document.querySelectorAll(".sorted").forEach(part => {
  const table = part.querySelector("table"), rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const words = part.querySelector("input"), choices = [...part.querySelectorAll("select")], count = part.querySelector("output");
  const text = (row, k) => row.cells[k].textContent.trim();
  // A cell is a key of its own, a number, a share such as "3 of 4", or words; an empty one comes last.
  const key = (row, k) => {
    const own = (row.cells[k].dataset.key ?? text(row, k)).replace("−", "-"), share = own.match(/^(\d+) of (\d+)/);
    return own === "" ? -Infinity : share ? share[1] / share[2] : isNaN(own) ? own.toLowerCase() : +own;
  };
  const show = () => {
    const asked = words.value.toLowerCase().split(" ");
    const chosen = (row, each) => !each.value || each.dataset.columns.split(" ").map(k => text(row, k)).join(" ") === each.value;
    rows.forEach(row => {
      row.hidden = !choices.every(each => chosen(row, each)) || !asked.every(word => row.textContent.toLowerCase().includes(word));
    });
    table.classList.toggle("one", choices.some(each => each.value && each.dataset.columns.includes(" ")));
    count.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} rows`;
  };
  heads.forEach((head, k) => {
    head.innerHTML = `<button type="button">${head.innerHTML}</button>`;
    head.onclick = () => {
      const numbers = rows.some(row => Number.isFinite(key(row, k)));
      const down = head.ariaSort ? head.ariaSort === "ascending" : numbers && !rows[0].cells[k].dataset.key;
      heads.forEach(each => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => { const [x, y] = [key(a, k), key(b, k)]; return x < y ? -1 : x > y ? 1 : 0; };
      rows.sort((a, b) => down ? order(b, a) : order(a, b));
      table.tBodies[0].append(...rows);
    };
  });
  // Columns of progress: teal above 0, orange below.
  (table.dataset.shaded ?? "").split(" ").filter(k => k).forEach(k => rows.forEach(row => {
    const value = key(row, k), share = Math.min(Math.abs(value), 1) * 0.55;
    if (Number.isFinite(value)) row.cells[k].style.backgroundColor = `rgba(${value < 0 ? "230,126,34" : "31,140,150"},${share})`;
  }));
  words.oninput = show;
  choices.forEach(each => { each.onchange = show; });
  show();
});
